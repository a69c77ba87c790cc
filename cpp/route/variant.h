// The ways to run a route, and which of them was measured to win.
#pragma once
#include <cstdint>
#include <map>

#include "route/limits.h"

namespace qwisp {

enum class Variant : uint8_t { pair, single, last, split_pair, split_last };
inline constexpr Variant kVariants[] = {Variant::pair, Variant::single, Variant::last, Variant::split_pair,
                                        Variant::split_last};
const char *variant_name(Variant variant);
// Bytes that the rows of x must be aligned to.
constexpr uint32_t x_alignment(Variant variant) {
    const bool wide = variant == Variant::split_pair || variant == Variant::split_last;
    return wide ? uint32_t{kSplitAlignment} : uint32_t{sizeof(uint16_t)};
}

// By shape: what won there on this device.
using Verdicts = std::map<RouteShape, Variant>;

}  // namespace qwisp
