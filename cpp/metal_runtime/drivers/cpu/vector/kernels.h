// Everything a target offers, compiled for the including file's instruction set. The including file defines
// QWISP_VECTOR_TARGET.
#pragma once
#include "metal_runtime/drivers/cpu/vector/choose.h"
#include "metal_runtime/drivers/cpu/vector/qmm.h"

namespace qwisp::metal::vector::QWISP_VECTOR_TARGET {

constexpr Target make_target(const char *name, bool (*runs_here)()) {
    return {name, runs_here, kGroup, pack_group, convert, logits, choose, exponentials};
}

}  // namespace qwisp::metal::vector::QWISP_VECTOR_TARGET
