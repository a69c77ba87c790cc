// The vector targets of this build.
#pragma once
#include <span>
#include <string_view>

#include "metal_runtime/drivers/cpu/vector/target.h"

namespace qwisp::metal::vector {

extern const Target kAvx512, kAvx2, kNeon, kPortable;  // those of other architectures are not linked

// Best first, those that this processor runs.
std::span<const Target *const> targets();
// Null if this build or this processor has no target of that name.
const Target *find_target(std::string_view name);

}  // namespace qwisp::metal::vector
