// Buffers that a route writes: its results and what the fused kernels keep between threadgroups. Working
// memory: where shared memory is far from the device, the host reads it with read_buffer.
//
// One scratch serves one route at a time: two routes that may overlap (two command buffers in flight, or one
// concurrent encoder without a barrier between them) need a scratch each. In one serial encoder, or with a
// barrier between the routes, they may share one.
#pragma once
#include <cstdint>
#include <memory>

#include "route/buffer.h"
#include "route/context.h"

namespace qwisp {

class RouteScratch {
  public:
    // Room for `rows` rows. Throws std::invalid_argument, AllocationError.
    static std::shared_ptr<RouteScratch> create(std::shared_ptr<Context> context, int64_t rows,
                                                int64_t experts, int64_t top_k);

    // The same working memory with other results, which hold up to `rows`; the scratch's own logits if null.
    std::shared_ptr<RouteScratch> with_results(uint32_t rows, BufferPtr inds, BufferPtr scores,
                                               BufferPtr logits) const;

    // Clears what the fused kernels expect to be zero. Needed only after a command buffer that used this
    // scratch failed, and only while none is in flight: a launch that completes leaves it cleared. Blocks;
    // throws DeviceError where the device has to do it.
    void reset();

    const std::shared_ptr<Context> &context() const { return context_; }
    uint32_t rows() const { return rows_; }
    uint32_t experts() const { return experts_; }
    uint32_t top_k() const { return top_k_; }
    MTL::Buffer *inds() const { return inds_.get(); }          // int32 [rows, top_k]
    MTL::Buffer *scores() const { return scores_.get(); }      // float16 [rows, top_k]
    MTL::Buffer *logits() const { return logits_.get(); }      // float16 [rows, experts]
    MTL::Buffer *arrivals() const { return arrivals_.get(); }  // uint32 [rows]
    MTL::Buffer *words() const { return words_.get(); }        // uint32 [rows, experts]

  private:
    RouteScratch() = default;
    RouteScratch(const RouteScratch &) = default;

    std::shared_ptr<Context> context_;
    uint32_t rows_ = 0, experts_ = 0, top_k_ = 0;
    BufferPtr inds_, scores_, logits_, arrivals_, words_;
};

}  // namespace qwisp
