#include "metal_runtime/device/device.h"

#include <chrono>
#include <string_view>

#include "metal_runtime/device/buffer.h"
#include "metal_runtime/device/event.h"
#include "metal_runtime/device/library.h"
#include "metal_runtime/device/pipeline.h"
#include "metal_runtime/device/queue.h"

namespace qwisp::metal {
namespace {

using State = DeviceState;

constexpr size_t kDefaultQueueLength = 64;  // Metal: newCommandQueue

MTL::Device *device(id self) { return reinterpret_cast<MTL::Device *>(self); }

uint64_t registry_id(std::string_view name) {
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
    return hash;
}

// What kernels may count on, in the words of Apple's feature tables: the compute side of these families.
bool supports(MTL::GPUFamily family) {
    return (family >= MTL::GPUFamilyApple1 && family <= MTL::GPUFamilyApple7) ||
           (family >= MTL::GPUFamilyCommon1 && family <= MTL::GPUFamilyCommon3) ||
           family == MTL::GPUFamilyMetal3;
}

MTL::Size max_threads(const State &self) {
    const size_t most = self.core->limits.max_threads_per_threadgroup;
    return MTL::Size(most, most, most);
}

void sample(MTL::Timestamp *cpu, MTL::Timestamp *gpu) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    if (cpu) *cpu = MTL::Timestamp(nanoseconds);
    if (gpu) *gpu = MTL::Timestamp(nanoseconds);
}

MTL::ComputePipelineState *with_reflection(MTL::ComputePipelineState *pipeline,
                                           MTL::ComputePipelineReflection **reflection) {
    if (reflection) *reflection = pipeline ? reflection_of(objc::payload<PipelineState>(pipeline)) : nullptr;
    return pipeline;
}

void add_properties(objc::PayloadClass<State> &cls) {
    cls.method("name",
               [](const State &self) { return ns_string(std::string(self.core->driver->device_name())); })
        .method("registryID", [](const State &self) { return registry_id(self.core->driver->name()); })
        .method("maxThreadsPerThreadgroup", [](const State &self) { return max_threads(self); })
        .method("maxThreadgroupMemoryLength",
                [](const State &self) -> NS::UInteger { return self.core->limits.max_threadgroup_memory; })
        .method("maxBufferLength",
                [](const State &self) -> NS::UInteger { return self.core->limits.max_buffer_length; })
        .method("recommendedMaxWorkingSetSize",
                [](const State &self) -> uint64_t {
                    const Limits &limits = self.core->limits;
                    return limits.working_set ? limits.working_set : limits.max_buffer_length;
                })
        .method("currentAllocatedSize",
                [](const State &self) -> NS::UInteger { return self.core->allocated; })
        .method("hasUnifiedMemory", [](const State &self) { return self.core->limits.unified_memory; })
        .method("isLowPower", [](const State &) { return false; })
        .method("isHeadless", [](const State &) { return true; })
        .method("isRemovable", [](const State &) { return false; })
        .method("location", [](const State &) { return MTL::DeviceLocationBuiltIn; })
        .method("locationNumber", [](const State &) -> NS::UInteger { return 0; })
        .method("supportsFamily:", [](const State &, MTL::GPUFamily family) { return supports(family); })
        .method("supportsCounterSampling:", [](const State &, MTL::CounterSamplingPoint) { return false; })
        .method("counterSets", [](const State &) -> NS::Array * { return nullptr; })
        .method("sampleTimestamps:gpuTimestamp:",
                [](const State &, MTL::Timestamp *cpu, MTL::Timestamp *gpu) { sample(cpu, gpu); });
}

void add_factories(objc::PayloadClass<State> &cls) {
    cls.method("newBufferWithLength:options:",
               [](id self, NS::UInteger length, MTL::ResourceOptions options) {
                   return new_buffer(device(self), length, options);
               })
        .method("newBufferWithBytes:length:options:",
                [](id self, const void *bytes, NS::UInteger length, MTL::ResourceOptions options) {
                    return new_buffer(device(self), bytes, length, options);
                })
        .method("newBufferWithBytesNoCopy:length:options:deallocator:",
                [](id self, void *bytes, NS::UInteger length, MTL::ResourceOptions options,
                   BlockPointer deallocator) {
                    return new_buffer(device(self), bytes, length, options, deallocator);
                })
        .method("newLibraryWithSource:options:error:",
                [](id self, NS::String *source, MTL::CompileOptions *options, NS::Error **error) {
                    return new_library(device(self), source, options, error);
                })
        .method("newCommandQueue", [](id self) { return new_queue(device(self), kDefaultQueueLength); })
        .method("newCommandQueueWithMaxCommandBufferCount:",
                [](id self, NS::UInteger count) { return new_queue(device(self), count); })
        .method("newCommandQueueWithDescriptor:",
                [](id self, MTL::CommandQueueDescriptor *descriptor) {
                    if (!descriptor) refuse(Misuse::null_argument, "newCommandQueue: the descriptor is null");
                    return new_queue(device(self), descriptor->maxCommandBufferCount());
                })
        .method("newComputePipelineStateWithFunction:error:",
                [](id self, MTL::Function *function, NS::Error **error) {
                    return new_pipeline(device(self), function, {}, error);
                })
        .method("newComputePipelineStateWithFunction:options:reflection:error:",
                [](id self, MTL::Function *function, MTL::PipelineOption,
                   MTL::ComputePipelineReflection **reflection, NS::Error **error) {
                    return with_reflection(new_pipeline(device(self), function, {}, error), reflection);
                })
        .method("newComputePipelineStateWithDescriptor:options:reflection:error:",
                [](id self, MTL::ComputePipelineDescriptor *descriptor, MTL::PipelineOption,
                   MTL::ComputePipelineReflection **reflection, NS::Error **error) {
                    return with_reflection(new_pipeline(device(self), descriptor, error), reflection);
                })
        .method(
            "newEvent",
            [](id self) { return event_class().create<MTL::Event>(EventState{NS::RetainPtr(device(self))}); })
        .method("newSharedEvent", [](id self) {
            return event_class().create<MTL::SharedEvent>(EventState{NS::RetainPtr(device(self))});
        });
}

}  // namespace

DeviceCore::DeviceCore(std::shared_ptr<Driver> driver_)
    : driver(std::move(driver_)), limits(driver->limits()) {}

const objc::PayloadClass<DeviceState> &device_class() {
    static const auto cls = [] {
        objc::PayloadClass<State> made("QwispDevice");
        add_properties(made);
        add_factories(made);
        return made.registered();
    }();
    return cls;
}

MTL::Device *new_device(std::shared_ptr<Driver> driver) {
    qwisp_define_metal_classes();
    return device_class().create<MTL::Device>(State{std::make_shared<DeviceCore>(std::move(driver))});
}

DeviceCore *core_of(const MTL::Device *device) {
    const DeviceState *const state = device_class().find(device);
    return state ? state->core.get() : nullptr;
}

}  // namespace qwisp::metal
