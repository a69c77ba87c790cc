// What compute and blit encoders have in common.
#pragma once
#include <string>

#include "metal_runtime/device/command_buffer.h"

namespace qwisp::metal {

class Encoder {
  public:
    Encoder(MTL::CommandBuffer *buffer, const char *kind, const char *call);
    Encoder(const Encoder &) = delete;
    Encoder &operator=(const Encoder &) = delete;

    std::string name() const { return kind_ + quoted(label); }
    MTL::Device *device() const { return buffer_->device(); }
    void pop_debug_group();
    void push_debug_group() { ++debug_groups_; }

    Label label;

  protected:
    ~Encoder();

    void check_open(const char *call) {
        if (ended_) [[unlikely]]
            misuse(Misuse::encoder_ended, std::string(call) + ": the encoder has ended");
    }
    void end();
    [[noreturn]] void misuse(Misuse misuse, const std::string &message);
    // The memory of a buffer argument, held by the command buffer from now on.
    Allocation &use(const MTL::Buffer *buffer, const char *call, const char *what) {
        const BufferState *const state = buffer_class().find(buffer);
        if (!state || state->core() != commands_.core()) [[unlikely]]
            refuse_use(buffer, call, what);
        commands_.hold(state->allocation);
        return *state->allocation;
    }

    CommandBufferState &commands_;

  private:
    [[noreturn]] void refuse_use(const MTL::Buffer *buffer, const char *call, const char *what);

    const NS::SharedPtr<MTL::CommandBuffer> buffer_;
    const std::string kind_;
    size_t debug_groups_ = 0;
    bool ended_ = false;
};

// The methods of MTL::CommandEncoder.
template <class E>
void add_encoder_methods(objc::PayloadClass<E> &cls) {
    cls.method("device", [](const E &self) { return self.device(); })
        .method("label", [](const E &self) { return ns_string(self.label.get()); })
        .method("setLabel:", [](E &self, NS::String *label) { self.label.set(text_of(label)); })
        .method("endEncoding", [](E &self) { self.end_encoding(); })
        .method("pushDebugGroup:", [](E &self, NS::String *) { self.push_debug_group(); })
        .method("popDebugGroup", [](E &self) { self.pop_debug_group(); })
        .method("insertDebugSignpost:", [](E &, NS::String *) {});
}

MTL::ComputeCommandEncoder *new_compute_encoder(MTL::CommandBuffer *buffer, MTL::DispatchType type);
MTL::BlitCommandEncoder *new_blit_encoder(MTL::CommandBuffer *buffer);

}  // namespace qwisp::metal
