#include "route/commands.h"

#include "route/errors.h"
#include "route/outcome.h"

namespace qwisp {
namespace {

MTL::BlitCommandEncoder *new_blit_encoder(MTL::CommandBuffer *commands) {
    MTL::BlitCommandEncoder *const encoder = commands->blitCommandEncoder();
    if (!encoder) throw DeviceError("the command buffer gives no blit encoder");
    return encoder;
}

}  // namespace

MTL::CommandBuffer *new_commands(MTL::CommandQueue *queue) {
    MTL::CommandBuffer *const commands = queue->commandBuffer();
    if (!commands) throw DeviceError("the queue gives no command buffer");
    return commands;
}

MTL::ComputeCommandEncoder *detail::new_encoder(MTL::CommandBuffer *commands, MTL::DispatchType type) {
    MTL::ComputeCommandEncoder *const encoder = commands->computeCommandEncoder(type);
    if (!encoder) throw DeviceError("the command buffer gives no compute encoder");
    return encoder;
}

void encode_copies(MTL::CommandBuffer *commands, std::span<const BufferCopy> copies) {
    if (copies.empty()) return;
    MTL::BlitCommandEncoder *const encoder = new_blit_encoder(commands);
    for (const BufferCopy &copy : copies) {
        encoder->copyFromBuffer(copy.from, 0, copy.to, copy.to_offset, blit_length(copy.length));
    }
    encoder->endEncoding();
}

void encode_fills(MTL::CommandBuffer *commands, std::span<MTL::Buffer *const> buffers, std::byte value) {
    MTL::BlitCommandEncoder *const encoder = new_blit_encoder(commands);
    for (MTL::Buffer *const buffer : buffers) {
        encoder->fillBuffer(buffer, NS::Range(0, buffer->length()), uint8_t(value));
    }
    encoder->endEncoding();
}

void complete(MTL::CommandBuffer *commands) {
    commands->commit();
    commands->waitUntilCompleted();
    throw_if_failed(commands);
}

}  // namespace qwisp
