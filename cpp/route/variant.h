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

// By shape: what won there on this device.
using Verdicts = std::map<RouteShape, Variant>;

}  // namespace qwisp
