// The compute command encoder, serial or concurrent.
#pragma once
#include <array>
#include <optional>

#include "metal_runtime/device/encoder.h"
#include "metal_runtime/device/hazards.h"

namespace qwisp::metal {

class ComputeEncoder final : public Encoder {
  public:
    ComputeEncoder(MTL::CommandBuffer *buffer, MTL::DispatchType type);

    void set_pipeline(const MTL::ComputePipelineState *pipeline);
    void set_buffer(const MTL::Buffer *buffer, size_t offset, size_t slot);
    void set_buffers(const MTL::Buffer *const *buffers, const NS::UInteger *offsets, NS::Range slots);
    void set_buffer_offset(size_t offset, size_t slot);
    void set_bytes(const void *bytes, size_t length, size_t slot);
    void set_threadgroup_memory(size_t length, size_t index);
    void dispatch_groups(const Size3 &groups, const Size3 &threads);
    void dispatch_threads(const Size3 &grid, const Size3 &threads);
    void barrier(MTL::BarrierScope scope);
    void barrier(const MTL::Resource *const *resources, size_t count);
    void use_resources(const MTL::Resource *const *resources, size_t count);
    void end_encoding();
    void ignore_barrier(uint64_t index) { ignored_barrier_ = index; }  // for tests: testing.h

    MTL::DispatchType dispatch_type() const {
        return tracker_ ? MTL::DispatchTypeConcurrent : MTL::DispatchTypeSerial;
    }

  private:
    void check_slot(const char *call, size_t slot) {
        if (slot >= kMaxBuffers) [[unlikely]]
            refuse_slot(call, slot);
    }
    void check_offset(const char *call, size_t offset, const Allocation &allocation) {
        if (offset >= allocation.length) [[unlikely]]
            refuse_offset(call, offset, allocation);
    }
    [[noreturn]] void refuse_slot(const char *call, size_t slot);
    [[noreturn]] void refuse_offset(const char *call, size_t offset, const Allocation &allocation);
    void check_shape(const char *call, const Size3 &groups, const Size3 &threads);
    void check_arguments();
    void dispatch(const char *call, const Size3 &groups, const Size3 &threads, const Size3 &grid);
    std::string kernel() const { return "kernel " + pipeline_->name(); }
    std::string argument(const Argument &argument) const;

    const Pipeline *pipeline_ = nullptr;  // held by the command buffer
    std::array<Binding, kMaxBuffers> bindings_;
    std::array<size_t, kMaxBuffers> threadgroup_memory_ = {};
    size_t threadgroup_memory_sum_ = 0;
    bool changed_ = true;                   // since `kept_` was made
    std::span<const Binding> kept_;         // what dispatches share while nothing changes
    std::optional<HazardTracker> tracker_;  // concurrent only
    uint64_t serial_barriers_ = 0;
    uint64_t barrier_calls_ = 0, ignored_barrier_ = UINT64_MAX;
    uint32_t phase_;
};

const objc::PayloadClass<ComputeEncoder> &compute_encoder_class();

}  // namespace qwisp::metal
