// What the simdgroup operations compute, once every lane has come.
#pragma once
#include <cstdint>

#include "image.h"

namespace qwisp::simt {

struct SimdLanes {
    uint32_t count;             // lanes that exist
    uint32_t values[kLanes];    // replaced by the results
    uint32_t operands[kLanes];  // lane to read or mask
};

// Returns null, or what is wrong with the operand of `*lane`.
const char *combine(Rendezvous kind, SimdLanes &lanes, uint32_t *lane);

}  // namespace qwisp::simt
