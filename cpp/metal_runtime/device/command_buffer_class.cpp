#include "metal_runtime/device/command_buffer.h"
#include "metal_runtime/device/encoder.h"

namespace qwisp::metal {
namespace {

using State = CommandBufferState;

MTL::CommandBuffer *buffer(id self) { return reinterpret_cast<MTL::CommandBuffer *>(self); }

}  // namespace

const objc::PayloadClass<State> &command_buffer_class() {
    static const auto cls =
        objc::PayloadClass<State>("QwispCommandBuffer")
            .method("device", [](const State &self) { return self.queue()->device(); })
            .method("commandQueue", [](const State &self) { return self.queue(); })
            .method("retainedReferences", [](const State &self) { return self.retains(); })
            .method("errorOptions", [](const State &) { return MTL::CommandBufferErrorOptionNone; })
            .method("logs", [](const State &) -> MTL::LogContainer * { return nullptr; })
            .method("label", [](const State &self) { return ns_string(self.label.get()); })
            .method("setLabel:", [](State &self, NS::String *label) { self.label.set(text_of(label)); })
            .method("pushDebugGroup:", [](State &self, NS::String *) { self.push_debug_group(); })
            .method("popDebugGroup", [](State &self) { self.pop_debug_group(); })
            .method("computeCommandEncoder",
                    [](id self) {
                        return new_compute_encoder(buffer(self), MTL::DispatchTypeSerial)->autorelease();
                    })
            .method("computeCommandEncoderWithDispatchType:",
                    [](id self, MTL::DispatchType type) {
                        return new_compute_encoder(buffer(self), type)->autorelease();
                    })
            .method("computeCommandEncoderWithDescriptor:",
                    [](id self, MTL::ComputePassDescriptor *descriptor) {
                        if (!descriptor) {
                            objc::payload<State>(self).misuse(
                                Misuse::null_argument, "computeCommandEncoder: the descriptor is null");
                        }
                        return new_compute_encoder(buffer(self), descriptor->dispatchType())->autorelease();
                    })
            .method("blitCommandEncoder",
                    [](id self) { return new_blit_encoder(buffer(self))->autorelease(); })
            .method("encodeSignalEvent:value:", [](State &self, MTL::Event *event,
                                                   uint64_t value) { self.encode_event(event, value, true); })
            .method("encodeWaitForEvent:value:",
                    [](State &self, MTL::Event *event, uint64_t value) {
                        self.encode_event(event, value, false);
                    })
            .method("addScheduledHandler:",
                    [](State &self, BlockPointer block) { self.add_handler(block, false); })
            .method("addCompletedHandler:",
                    [](State &self, BlockPointer block) { self.add_handler(block, true); })
            .method("enqueue", [](State &self) { self.enqueue(); })
            .method("commit", [](id self) { objc::payload<State>(self).commit(buffer(self)); })
            .method("waitUntilScheduled", [](State &self) { self.wait(false); })
            .method("waitUntilCompleted", [](State &self) { self.wait(true); })
            .method("status", [](const State &self) { return self.status(); })
            .method("error", [](const State &self) { return self.error(); })
            .method("GPUStartTime", [](const State &self) { return self.time(&State::gpu_start); })
            .method("GPUEndTime", [](const State &self) { return self.time(&State::gpu_end); })
            .method("kernelStartTime", [](const State &self) { return self.time(&State::kernel_start); })
            .method("kernelEndTime", [](const State &self) { return self.time(&State::kernel_end); })
            .registered();
    return cls;
}

}  // namespace qwisp::metal
