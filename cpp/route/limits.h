// The limits of CONTRACT section 1, checked in one place. Every message: argument, value, limit.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace qwisp {

// Signed and wide, so that what a caller passed can be named as it was.
struct RouteShape {
    int64_t rows = 0;     // M
    int64_t hidden = 0;   // H
    int64_t experts = 0;  // E
    int64_t top_k = 0;    // K
    auto operator<=>(const RouteShape &) const = default;
};

// Each throws std::invalid_argument. rows may be 0: nothing to route.
void check_gate_shape(int64_t hidden, int64_t experts);
void check_scratch_shape(int64_t rows, int64_t experts, int64_t top_k);
void check_route_shape(const RouteShape &shape);

// "x: 100 bytes, needs 4096 ([rows=1, hidden=2048] float16)"
void check_length(std::string_view argument, uint64_t found, uint64_t needed, std::string_view meaning);

// The same for a length that must be neither less nor more.
void check_exact_length(std::string_view argument, uint64_t found, uint64_t needed, std::string_view meaning);

}  // namespace qwisp
