// Hooks for tests.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <chrono>
#include <cstdint>

namespace qwisp::metal {

// Of all encoders of the command buffer that have ended. A barrier is superfluous if, without it, no dispatch
// would have conflicted either (hazards.h); in a serial encoder every one is.
struct BarrierCounts {
    uint64_t all, superfluous;
};
BarrierCounts barrier_counts(const MTL::CommandBuffer *buffer);

// As if the encoder's barrier of that index, counted from 0, were never encoded.
void ignore_barrier(const MTL::ComputeCommandEncoder *encoder, uint64_t index);

// How long a full queue may stay full while nothing is committed, before commandBuffer() throws.
void set_stall_limit(const MTL::CommandQueue *queue, std::chrono::milliseconds limit);

}  // namespace qwisp::metal
