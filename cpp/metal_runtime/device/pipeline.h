// Compute pipeline states and their reflection.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "metal_runtime/device/device.h"
#include "metal_runtime/device/library.h"

namespace qwisp::metal {

// What command buffers share, so that it outlives the MTL::ComputePipelineState while they need it.
struct Pipeline {
    std::shared_ptr<DeviceCore> device;
    std::shared_ptr<Module> module;
    std::unique_ptr<Kernel> kernel;
    std::vector<Argument> arguments;  // those that exist with these function constants
    size_t slots;                     // one more than the last slot of an argument
    size_t max_threads, threadgroup_memory;
    Size3 required_threads;  // 0: any
    bool whole_simdgroups;   // the descriptor promised a multiple of the execution width
    std::optional<std::string> label;
    std::atomic<uint64_t> holder = 0;  // the command buffer that took a share last

    const std::string &name() const { return kernel->info().name; }
};

struct PipelineState {
    const DeviceCore *core() const { return pipeline->device.get(); }

    NS::SharedPtr<MTL::Device> device;
    std::shared_ptr<Pipeline> pipeline;
};

const objc::PayloadClass<PipelineState> &pipeline_class();

struct PipelineOptions {
    std::optional<std::string> label = {};
    size_t max_threads = 0;  // 0: what the kernel allows
    Size3 required_threads = {};
    bool whole_simdgroups = false;
};

// Null, and an error, if there can be none: function constants without values, or more than the device has.
MTL::ComputePipelineState *new_pipeline(MTL::Device *device, const MTL::Function *function,
                                        const PipelineOptions &options, NS::Error **error);
MTL::ComputePipelineState *new_pipeline(MTL::Device *device, const MTL::ComputePipelineDescriptor *descriptor,
                                        NS::Error **error);

MTL::ComputePipelineReflection *reflection_of(const PipelineState &state);  // autoreleased

}  // namespace qwisp::metal
