// What a route may be given besides x and the gate: a residency bias, a telemetry copy, a slot table.
// Plain borrowed pointers: the command buffer keeps what it binds.
#pragma once
#include <Metal/Metal.hpp>
#include <cstdint>

#include "route/limits.h"

namespace qwisp {

// CONTRACT section 4.
struct RouteBias {
    MTL::Buffer *resident = nullptr;  // int32 [experts]
    float eps = 0;                    // finite; <= 0 means unbiased
};

// Throws std::invalid_argument unless eps is finite. True if a bias of this eps changes the choice.
bool bias_applies(float eps);

// CONTRACT section 5: which layer, of how many, which chain slot, and how many rows a slot has room for.
struct DiagPlace {
    int64_t layer = 0;
    int64_t layers = 1;
    int64_t slot = 0;
    int64_t max_rows = 1;
};
struct RouteDiag {
    MTL::Buffer *inds = nullptr;    // int32
    MTL::Buffer *logits = nullptr;  // float16
    DiagPlace place;
};

// Where a copy goes. The lengths are what the two buffers must hold for this place to exist, copied to or
// not.
struct DiagCopy {
    uint64_t inds_offset = 0, logits_offset = 0;  // bytes
    uint64_t inds_length = 0, logits_length = 0;  // bytes
    uint32_t inds_count = 0, logits_count = 0;    // elements; both 0: nothing to copy
    bool operator==(const DiagCopy &) const = default;
};

// Pure. Throws std::invalid_argument for a place outside its layers, or an offset that 64 bits cannot hold.
DiagCopy diag_copy(const RouteShape &shape, const DiagPlace &place);

// Throws std::invalid_argument unless both outputs (lengths in bytes) hold the place.
void check_diag_lengths(const DiagCopy &copy, uint64_t inds, uint64_t logits);

// CONTRACT section 6.
struct Remap {
    MTL::Buffer *table = nullptr;  // int32 [length]
    int64_t length = 0;            // elements, at least experts
};

}  // namespace qwisp
