#include "metal_runtime/device/compute_encoder.h"

namespace qwisp::metal {
namespace {

Size3 size3(const MTL::Size &size) { return {size.width, size.height, size.depth}; }

}  // namespace

const objc::PayloadClass<ComputeEncoder> &compute_encoder_class() {
    using E = ComputeEncoder;
    static const auto cls = [] {
        objc::PayloadClass<E> made("QwispComputeCommandEncoder");
        add_encoder_methods(made);
        made.method("dispatchType", [](const E &self) { return self.dispatch_type(); })
            .method("setComputePipelineState:",
                    [](E &self, MTL::ComputePipelineState *pipeline) { self.set_pipeline(pipeline); })
            .method("setBuffer:offset:atIndex:",
                    [](E &self, MTL::Buffer *buffer, NS::UInteger offset, NS::UInteger slot) {
                        self.set_buffer(buffer, offset, slot);
                    })
            .method("setBuffers:offsets:withRange:",
                    [](E &self, const MTL::Buffer *const *buffers, const NS::UInteger *offsets,
                       NS::Range slots) { self.set_buffers(buffers, offsets, slots); })
            .method(
                "setBufferOffset:atIndex:",
                [](E &self, NS::UInteger offset, NS::UInteger slot) { self.set_buffer_offset(offset, slot); })
            .method("setBytes:length:atIndex:",
                    [](E &self, const void *bytes, NS::UInteger length, NS::UInteger slot) {
                        self.set_bytes(bytes, length, slot);
                    })
            .method("setThreadgroupMemoryLength:atIndex:",
                    [](E &self, NS::UInteger length, NS::UInteger index) {
                        self.set_threadgroup_memory(length, index);
                    })
            .method("dispatchThreadgroups:threadsPerThreadgroup:",
                    [](E &self, MTL::Size groups, MTL::Size threads) {
                        self.dispatch_groups(size3(groups), size3(threads));
                    })
            .method("dispatchThreads:threadsPerThreadgroup:",
                    [](E &self, MTL::Size grid, MTL::Size threads) {
                        self.dispatch_threads(size3(grid), size3(threads));
                    })
            .method("memoryBarrierWithScope:", [](E &self, MTL::BarrierScope scope) { self.barrier(scope); })
            .method("memoryBarrierWithResources:count:",
                    [](E &self, const MTL::Resource *const *resources, NS::UInteger count) {
                        self.barrier(resources, count);
                    })
            .method("useResource:usage:", [](E &self, const MTL::Resource *resource,
                                             MTL::ResourceUsage) { self.use_resources(&resource, 1); })
            .method("useResources:count:usage:",
                    [](E &self, const MTL::Resource *const *resources, NS::UInteger count,
                       MTL::ResourceUsage) { self.use_resources(resources, count); });
        return made.registered();
    }();
    return cls;
}

MTL::ComputeCommandEncoder *new_compute_encoder(MTL::CommandBuffer *buffer, MTL::DispatchType type) {
    return compute_encoder_class().create<MTL::ComputeCommandEncoder>(buffer, type);
}

}  // namespace qwisp::metal
