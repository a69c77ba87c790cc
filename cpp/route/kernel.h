// Names and function constants of the kernels.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>

#include "route_types.h"

namespace qwisp {

enum class Kernel : uint8_t {
#define QWISP_KERNEL_ENUM(name) name,
    QWISP_KERNELS(QWISP_KERNEL_ENUM)
#undef QWISP_KERNEL_ENUM
};

const char *kernel_name(Kernel kernel);

// Function constants; all zero for a kernel that has none.
struct FusedConstants {
    bool use_bias = false;
    bool write_logits = false;
    uint32_t hidden = 0;
    uint32_t experts = 0;
    uint32_t top_k = 0;
    uint32_t tile_rows = 0;
    auto operator<=>(const FusedConstants &) const = default;
};

}  // namespace qwisp
