#include "simd.h"

#include <algorithm>
#include <bit>

namespace qwisp::simt {

namespace {

// The butterfly 16, 8, 4, 2, 1. A lane that does not exist holds the identity.
template <class T, class Op>
void reduce(SimdLanes &lanes, T identity, Op op) {
    T values[kLanes], next[kLanes];
    for (uint32_t l = 0; l < kLanes; l++) {
        values[l] = l < lanes.count ? std::bit_cast<T>(lanes.values[l]) : identity;
    }
    for (uint32_t mask = kLanes / 2; mask > 0; mask /= 2) {
        for (uint32_t l = 0; l < kLanes; l++) next[l] = op(values[l], values[l ^ mask]);
        std::copy(next, next + kLanes, values);
    }
    for (uint32_t l = 0; l < lanes.count; l++) lanes.values[l] = std::bit_cast<uint32_t>(values[l]);
}

// A NaN loses to a number, as in msl_types.h.
float maximum(float a, float b) { return a >= b || b != b ? a : b; }
float minimum(float a, float b) { return a <= b || b != b ? a : b; }

const char *move(Rendezvous kind, SimdLanes &lanes, uint32_t *lane) {
    uint32_t results[kLanes];
    for (uint32_t l = 0; l < lanes.count; l++) {
        *lane = l;
        const bool uniform = kind != Rendezvous::simd_shuffle;
        if (uniform && lanes.operands[l] != lanes.operands[0]) return "differs from lane 0's";
        const uint32_t from =
            kind == Rendezvous::simd_shuffle_xor ? l ^ lanes.operands[l] : lanes.operands[l];
        if (from >= lanes.count) return "names a lane that does not exist";
        results[l] = lanes.values[from];
    }
    std::copy(results, results + lanes.count, lanes.values);
    return nullptr;
}

}  // namespace

const char *combine(Rendezvous kind, SimdLanes &lanes, uint32_t *lane) {
    const auto smaller = [](auto a, auto b) { return std::min(a, b); };
    const auto larger = [](auto a, auto b) { return std::max(a, b); };
    const float nan = std::bit_cast<float>(0x7fc00000u);
    switch (kind) {
        case Rendezvous::simd_sum_f32:
            reduce(lanes, -0.0f, [](float a, float b) { return a + b; });
            break;
        case Rendezvous::simd_sum_u32:
            reduce(lanes, 0u, [](uint32_t a, uint32_t b) { return a + b; });
            break;
        case Rendezvous::simd_max_f32:
            reduce(lanes, nan, maximum);
            break;
        case Rendezvous::simd_min_f32:
            reduce(lanes, nan, minimum);
            break;
        case Rendezvous::simd_max_u32:
            reduce(lanes, 0u, larger);
            break;
        case Rendezvous::simd_min_u32:
            reduce(lanes, UINT32_MAX, smaller);
            break;
        case Rendezvous::simd_max_i32:
            reduce(lanes, INT32_MIN, larger);
            break;
        case Rendezvous::simd_min_i32:
            reduce(lanes, INT32_MAX, smaller);
            break;
        case Rendezvous::simd_any:
            reduce(lanes, 0u, [](uint32_t a, uint32_t b) { return a | b; });
            break;
        case Rendezvous::simd_all:
            reduce(lanes, 1u, [](uint32_t a, uint32_t b) { return a & b; });
            break;
        case Rendezvous::simd_broadcast:
        case Rendezvous::simd_shuffle:
        case Rendezvous::simd_shuffle_xor:
            return move(kind, lanes, lane);
        case Rendezvous::threadgroup_barrier:
        case Rendezvous::simdgroup_barrier:
            break;
    }
    return nullptr;
}

}  // namespace qwisp::simt
