// A command buffer with one encoder, as synchronous callers make it.
#pragma once
#include <Metal/Metal.hpp>

namespace qwisp {

// Autoreleased, encoded and not committed. Throws DeviceError, and what `encode(encoder)` throws.
template <typename Encode>
MTL::CommandBuffer *compute_commands(MTL::CommandQueue *queue, MTL::DispatchType type, const Encode &encode);

// Autoreleased: a copy of all of `from` to the start of `to`.
MTL::CommandBuffer *copy_commands(MTL::CommandQueue *queue, MTL::Buffer *from, MTL::Buffer *to);

// Commits and waits. Throws DeviceError if the commands failed.
void complete(MTL::CommandBuffer *commands);

namespace detail {
MTL::CommandBuffer *new_commands(MTL::CommandQueue *queue);
MTL::ComputeCommandEncoder *new_encoder(MTL::CommandBuffer *commands, MTL::DispatchType type);
}  // namespace detail

template <typename Encode>
MTL::CommandBuffer *compute_commands(MTL::CommandQueue *queue, MTL::DispatchType type, const Encode &encode) {
    MTL::CommandBuffer *const commands = detail::new_commands(queue);
    MTL::ComputeCommandEncoder *const encoder = detail::new_encoder(commands, type);
    try {
        encode(encoder);
    } catch (...) {
        encoder->endEncoding();  // Metal aborts when an encoder is dropped open
        throw;
    }
    encoder->endEncoding();
    return commands;
}

}  // namespace qwisp
