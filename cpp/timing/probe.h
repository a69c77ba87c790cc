// What a dispatch and a barrier cost on a device: command buffers of N dispatches that do next to nothing.
#pragma once
#include <cstdint>
#include <memory>

#include "route/buffer.h"
#include "timing/commands.h"

namespace qwisp::timing {

// `empty`: diag_copy_route told to copy nothing. `tiny`: slot_remap_rows of one id. One simdgroup each.
enum class Work { empty, tiny };
// `barriers`: a concurrent encoder with a buffer barrier between any two dispatches.
enum class Order { serial, concurrent, barriers };

struct ProbeSample {
    GpuStamps gpu;
    int64_t wall_ns = 0;  // from the commit until the host saw the end
};

class DispatchProbe {
  public:
    // For up to `most` dispatches. Throws std::invalid_argument, AllocationError, DeviceError.
    DispatchProbe(std::shared_ptr<Context> context, int64_t most);

    // Throws std::invalid_argument, DeviceError.
    ProbeSample run(Work work, Order order, int64_t dispatches);

  private:
    void encode(MTL::ComputeCommandEncoder *encoder, Work work, int64_t index) const;

    std::shared_ptr<Context> context_;
    int64_t most_;
    BufferPtr ids_, source_, logits_;  // a slice of ids and logits for each dispatch: they do not depend
    const Pipeline *copy_, *remap_;
};

}  // namespace qwisp::timing
