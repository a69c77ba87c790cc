// What a vector target offers: the arithmetic of CONTRACT sections 2 to 4 for one instruction set. Pointers
// are host memory, checked by the caller; counts obey the limits of route_types.h.
#pragma once
#include <cstddef>
#include <cstdint>

namespace qwisp::metal::vector {

// The weights of `width` experts lie together: for each octet of lanes, block of 256 columns and lane, the
// first four bytes of every expert, then the second four. The scales and biases likewise: for each octet
// and block, `width` scales, then `width` biases. Missing experts of the last group are zeros.
struct PackedGate {
    const uint8_t *weight;  // [groups][4][hidden / 256][8][2][width][4]
    const uint16_t *pairs;  // [groups][4][hidden / 256][2][width]
    uint32_t hidden;
    uint32_t experts;
};

struct Choice {
    uint32_t experts;
    uint32_t top_k;
    const int32_t *resident;  // [experts], or null: no bias
    float eps;
};

struct Target {
    const char *name;
    bool (*runs_here)();
    uint32_t width;  // experts a group
    // One group of a gate as the contract stores it. `first` is a multiple of `width`.
    void (*pack_group)(const uint8_t *weight, const uint16_t *scales, const uint16_t *biases, uint32_t hidden,
                       uint32_t experts, uint32_t first, uint8_t *packed_weight, uint16_t *packed_pairs);
    // x [rows, hidden] to what `logits` takes: rows * floats_per_row(hidden) floats.
    void (*convert)(const uint16_t *x, uint32_t hidden, uint32_t rows, float *converted);
    // Logits of the groups `first` .. `last` - 1 for rows converted together: logits[row * experts + expert].
    void (*logits)(const PackedGate &gate, const float *converted, uint32_t rows, uint32_t first,
                   uint32_t last, uint16_t *logits);
    void (*choose)(const uint16_t *logits, const Choice &choice, int32_t *inds, uint16_t *scores);
    void (*exponentials)(const float *x, size_t count, float *out);  // x <= 0 or NaN; count a multiple of 16
};

constexpr size_t floats_per_row(uint32_t hidden) { return hidden + hidden / 8; }

}  // namespace qwisp::metal::vector
