// One command buffer with one compute encoder, from encoding to its time stamps.
#pragma once
#include <Metal/Metal.hpp>
#include <chrono>
#include <cstdint>
#include <functional>

#include "route/context.h"

namespace qwisp::timing {

using Encode = std::function<void(MTL::ComputeCommandEncoder *)>;

// The device's own stamps of a completed command buffer, in seconds; they bracket all of it.
struct GpuStamps {
    double start = 0, end = 0;
};
GpuStamps gpu_stamps(const MTL::CommandBuffer *commands);

inline int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Submitted {
    NS::SharedPtr<MTL::CommandBuffer> commands;
    int64_t committed_ns = 0;  // just before it was committed
};

// Encodes and commits. Throws DeviceError, and what `encode` throws; then nothing was committed.
Submitted submit(Context &context, bool concurrent, const Encode &encode);

// Waits, and returns when the host saw the end (ns). Throws DeviceError if the commands failed.
int64_t finish(const Submitted &submitted);

}  // namespace qwisp::timing
