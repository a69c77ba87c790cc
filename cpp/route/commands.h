// Command buffers as synchronous callers make them.
#pragma once
#include <Metal/Metal.hpp>
#include <cstddef>
#include <span>

namespace qwisp {

// Autoreleased, encoded and not committed. Throws DeviceError, and what `encode(encoder)` throws.
template <typename Encode>
MTL::CommandBuffer *compute_commands(MTL::CommandQueue *queue, MTL::DispatchType type, const Encode &encode);

// Autoreleased and empty. Throws DeviceError.
MTL::CommandBuffer *new_commands(MTL::CommandQueue *queue);

// One encoder of the command buffer. Throws as above.
template <typename Encode>
void encode_compute(MTL::CommandBuffer *commands, MTL::DispatchType type, const Encode &encode);

// Blits go by multiples of 4 bytes, by the rules of macOS.
constexpr size_t blit_length(size_t length) { return (length + 3) / 4 * 4; }

struct BufferCopy {
    MTL::Buffer *from, *to;
    size_t length;  // rounded up to a blit_length, for which both have room
    size_t to_offset = 0;
};
// An encoder with these copies; none for none. Throws DeviceError.
void encode_copies(MTL::CommandBuffer *commands, std::span<const BufferCopy> copies);
// Overwrites all of each buffer.
void encode_fills(MTL::CommandBuffer *commands, std::span<MTL::Buffer *const> buffers, std::byte value);

// Commits and waits. Throws DeviceError if the commands failed.
void complete(MTL::CommandBuffer *commands);

namespace detail {
MTL::ComputeCommandEncoder *new_encoder(MTL::CommandBuffer *commands, MTL::DispatchType type);
}  // namespace detail

template <typename Encode>
void encode_compute(MTL::CommandBuffer *commands, MTL::DispatchType type, const Encode &encode) {
    MTL::ComputeCommandEncoder *const encoder = detail::new_encoder(commands, type);
    try {
        encode(encoder);
    } catch (...) {
        encoder->endEncoding();  // Metal aborts when an encoder is dropped open
        throw;
    }
    encoder->endEncoding();
}

template <typename Encode>
MTL::CommandBuffer *compute_commands(MTL::CommandQueue *queue, MTL::DispatchType type, const Encode &encode) {
    MTL::CommandBuffer *const commands = new_commands(queue);
    encode_compute(commands, type, encode);
    return commands;
}

}  // namespace qwisp
