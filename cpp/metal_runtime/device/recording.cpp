#include "metal_runtime/device/recording.h"

#include <map>

#include "metal_runtime/device/driver.h"
#include "metal_runtime/device/ns.h"
#include "metal_runtime/device/validation.h"
#include "metal_runtime/objc/define_class.h"

namespace qwisp::metal {
namespace {

using Kind = RecordedCommand::Kind;

struct RecordingEncoder {
    RecordingEncoder(MTL::Device *device_, MTL::DispatchType type_)
        : device(device_ ? NS::RetainPtr(device_) : NS::SharedPtr<MTL::Device>()), type(type_) {}

    void check(const char *call, NS::UInteger slot = 0) const {
        const std::string what = std::string("recording encoder: ") + call;
        if (ended) throw ValidationError(Misuse::encoder_ended, what + ": the encoder has ended");
        if (slot >= kMaxBuffers) {
            throw ValidationError(Misuse::slot_range,
                                  what + ": slot " + std::to_string(slot) + ", but the last is 30");
        }
    }

    void set_buffer(const MTL::Buffer *buffer, NS::UInteger offset, NS::UInteger slot) {
        check("setBuffer", slot);
        const PoolScope pool;
        const auto label = buffer ? text_of(buffer->label()) : std::nullopt;
        bound[slot] = changed[uint32_t(slot)] = {uint32_t(slot), label.value_or(std::string()), offset, {}};
    }

    void set_offset(NS::UInteger offset, NS::UInteger slot) {
        check("setBufferOffset", slot);
        bound[slot].slot = uint32_t(slot);
        bound[slot].offset = offset;
        changed[uint32_t(slot)] = bound[slot];
    }

    void set_bytes(const void *bytes, NS::UInteger length, NS::UInteger slot) {
        check("setBytes", slot);
        const auto *const first = static_cast<const std::byte *>(bytes);
        bound[slot] = changed[uint32_t(slot)] = {uint32_t(slot), {}, 0, {first, first + length}};
    }

    void set_pipeline(const MTL::ComputePipelineState *state) {
        check("setComputePipelineState");
        const PoolScope pool;
        pipeline = text_of(state->label()).value_or(std::string());
        has_pipeline = true;
    }

    void dispatch(Kind kind, const MTL::Size &grid, const MTL::Size &threads) {
        check("dispatch");
        if (!has_pipeline) {
            throw ValidationError(Misuse::no_pipeline,
                                  "recording encoder: dispatch: no compute pipeline state is set");
        }
        RecordedCommand command{kind, pipeline, {}, {grid.width, grid.height, grid.depth}, {}};
        command.threads = {threads.width, threads.height, threads.depth};
        for (auto &[slot, binding] : changed) command.bindings.push_back(std::move(binding));
        changed.clear();
        commands.push_back(std::move(command));
    }

    void barrier() {
        check("memoryBarrier");
        commands.push_back({Kind::barrier, {}, {}, {}, {}});
    }

    NS::SharedPtr<MTL::Device> device;
    MTL::DispatchType type;
    Label label;
    std::array<RecordedBinding, kMaxBuffers> bound;
    std::map<uint32_t, RecordedBinding> changed;
    std::string pipeline;
    bool has_pipeline = false, ended = false;
    std::vector<RecordedCommand> commands;
};

const objc::PayloadClass<RecordingEncoder> &recording_class() {
    using E = RecordingEncoder;
    static const auto cls =
        objc::PayloadClass<E>("QwispRecordingEncoder")
            .method("device", [](const E &self) { return self.device.get(); })
            .method("dispatchType", [](const E &self) { return self.type; })
            .method("label", [](const E &self) { return ns_string(self.label.get()); })
            .method("setLabel:", [](E &self, NS::String *label) { self.label.set(text_of(label)); })
            .method("pushDebugGroup:", [](E &, NS::String *) {})
            .method("popDebugGroup", [](E &) {})
            .method("insertDebugSignpost:", [](E &, NS::String *) {})
            .method("useResource:usage:", [](E &, MTL::Resource *, MTL::ResourceUsage) {})
            .method("setThreadgroupMemoryLength:atIndex:", [](E &, NS::UInteger, NS::UInteger) {})
            .method("setComputePipelineState:",
                    [](E &self, MTL::ComputePipelineState *pipeline) { self.set_pipeline(pipeline); })
            .method("setBuffer:offset:atIndex:",
                    [](E &self, MTL::Buffer *buffer, NS::UInteger offset, NS::UInteger slot) {
                        self.set_buffer(buffer, offset, slot);
                    })
            .method(
                "setBuffers:offsets:withRange:",
                [](E &self, const MTL::Buffer *const *buffers, const NS::UInteger *offsets, NS::Range slots) {
                    for (NS::UInteger i = 0; i < slots.length; ++i) {
                        self.set_buffer(buffers[i], offsets[i], slots.location + i);
                    }
                })
            .method("setBufferOffset:atIndex:",
                    [](E &self, NS::UInteger offset, NS::UInteger slot) { self.set_offset(offset, slot); })
            .method("setBytes:length:atIndex:",
                    [](E &self, const void *bytes, NS::UInteger length, NS::UInteger slot) {
                        self.set_bytes(bytes, length, slot);
                    })
            .method("dispatchThreadgroups:threadsPerThreadgroup:",
                    [](E &self, MTL::Size groups, MTL::Size threads) {
                        self.dispatch(Kind::dispatch_groups, groups, threads);
                    })
            .method("dispatchThreads:threadsPerThreadgroup:",
                    [](E &self, MTL::Size grid, MTL::Size threads) {
                        self.dispatch(Kind::dispatch_threads, grid, threads);
                    })
            .method("memoryBarrierWithScope:", [](E &self, MTL::BarrierScope) { self.barrier(); })
            .method("memoryBarrierWithResources:count:",
                    [](E &self, const MTL::Resource *const *, NS::UInteger) { self.barrier(); })
            .method("endEncoding",
                    [](E &self) {
                        self.check("endEncoding");
                        self.ended = true;
                    })
            .registered();
    return cls;
}

RecordingEncoder &state(MTL::ComputeCommandEncoder *encoder) {
    return objc::payload<RecordingEncoder>(encoder);
}

}  // namespace

Recording::Recording(MTL::Device *device, MTL::DispatchType type)
    : encoder_(NS::TransferPtr(recording_class().create<MTL::ComputeCommandEncoder>(device, type))) {}

const std::vector<RecordedCommand> &Recording::commands() const { return state(encoder()).commands; }

bool Recording::ended() const { return state(encoder()).ended; }

}  // namespace qwisp::metal
