#include "route/commands.h"

#include "route/errors.h"
#include "route/outcome.h"

namespace qwisp {

MTL::CommandBuffer *detail::new_commands(MTL::CommandQueue *queue) {
    MTL::CommandBuffer *const commands = queue->commandBuffer();
    if (!commands) throw DeviceError("the queue gives no command buffer");
    return commands;
}

MTL::ComputeCommandEncoder *detail::new_encoder(MTL::CommandBuffer *commands, MTL::DispatchType type) {
    MTL::ComputeCommandEncoder *const encoder = commands->computeCommandEncoder(type);
    if (!encoder) throw DeviceError("the command buffer gives no compute encoder");
    return encoder;
}

MTL::CommandBuffer *copy_commands(MTL::CommandQueue *queue, MTL::Buffer *from, MTL::Buffer *to) {
    MTL::CommandBuffer *const commands = detail::new_commands(queue);
    MTL::BlitCommandEncoder *const encoder = commands->blitCommandEncoder();
    if (!encoder) throw DeviceError("the command buffer gives no blit encoder");
    encoder->copyFromBuffer(from, 0, to, 0, from->length());
    encoder->endEncoding();
    return commands;
}

void complete(MTL::CommandBuffer *commands) {
    commands->commit();
    commands->waitUntilCompleted();
    throw_if_failed(commands);
}

}  // namespace qwisp
