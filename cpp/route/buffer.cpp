#include "route/buffer.h"

#include <algorithm>
#include <string>

#include "route/errors.h"
#include "route/outcome.h"

namespace qwisp {
namespace {

constexpr size_t kSmallestBuffer = 16;

BufferPtr labelled(MTL::Device *device, MTL::Buffer *buffer, size_t length, const char *label) {
    if (!buffer) {
        throw AllocationError("buffer '" + std::string(label) + "': " + std::to_string(length) +
                              " bytes cannot be had; a buffer of this device may have at most " +
                              std::to_string(device->maxBufferLength()));
    }
    AutoreleaseScope pool;
    buffer->setLabel(NS::String::string(label, NS::UTF8StringEncoding));
    return NS::TransferPtr(buffer);
}

BufferPtr new_buffer(MTL::Device *device, size_t length, MTL::ResourceOptions options, const char *label) {
    const size_t rounded = std::max(length, kSmallestBuffer);
    const bool fits = rounded <= device->maxBufferLength();
    return labelled(device, fits ? device->newBuffer(rounded, options) : nullptr, length, label);
}

}  // namespace

BufferPtr new_shared_buffer(MTL::Device *device, size_t length, const char *label) {
    return new_buffer(device, length, MTL::ResourceStorageModeShared, label);
}

BufferPtr new_shared_buffer(MTL::Device *device, const void *bytes, size_t length, const char *label) {
    BufferPtr buffer = new_shared_buffer(device, length, label);
    std::copy_n(static_cast<const std::byte *>(bytes), length, contents<std::byte>(buffer.get()));
    return buffer;
}

BufferPtr new_private_buffer(MTL::CommandQueue *queue, const void *bytes, size_t length, const char *label) {
    AutoreleaseScope pool;
    MTL::Device *const device = queue->device();
    const BufferPtr staging = new_shared_buffer(device, bytes, length, label);
    BufferPtr buffer = new_buffer(device, length, MTL::ResourceStorageModePrivate, label);
    MTL::CommandBuffer *const commands = queue->commandBuffer();
    MTL::BlitCommandEncoder *const encoder = commands ? commands->blitCommandEncoder() : nullptr;
    if (!encoder) throw DeviceError("the queue gives no command buffer to fill a buffer with");
    encoder->copyFromBuffer(staging.get(), 0, buffer.get(), 0, buffer->length());
    encoder->endEncoding();
    commands->commit();
    commands->waitUntilCompleted();
    throw_if_failed(commands);
    return buffer;
}

}  // namespace qwisp
