#include "metal_runtime/device/testing.h"

#include "metal_runtime/device/command_buffer.h"
#include "metal_runtime/device/compute_encoder.h"

namespace qwisp::metal {

BarrierCounts barrier_counts(const MTL::CommandBuffer *buffer) {
    const auto &state = objc::payload<CommandBufferState>(buffer);
    return {state.barriers(), state.superfluous_barriers()};
}

void ignore_barrier(const MTL::ComputeCommandEncoder *encoder, uint64_t index) {
    objc::payload<ComputeEncoder>(encoder).ignore_barrier(index);
}

void set_stall_limit(const MTL::CommandQueue *queue, std::chrono::milliseconds limit) {
    objc::payload<QueueState>(queue).shared->stall_limit = limit;
}

}  // namespace qwisp::metal
