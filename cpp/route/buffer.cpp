#include "route/buffer.h"

#include <algorithm>
#include <string>

#include "route/commands.h"
#include "route/errors.h"

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
    MTL::Device *const device = queue->device();
    const BufferPtr staging = new_shared_buffer(device, bytes, length, label);
    BufferPtr buffer = new_buffer(device, length, MTL::ResourceStorageModePrivate, label);
    AutoreleaseScope pool;
    complete(copy_commands(queue, staging.get(), buffer.get()));
    return buffer;
}

void read_private_buffer(MTL::CommandQueue *queue, MTL::Buffer *from, void *to, size_t length) {
    const BufferPtr staging = new_shared_buffer(queue->device(), from->length(), "staging");
    AutoreleaseScope pool;
    complete(copy_commands(queue, from, staging.get()));
    std::copy_n(contents<std::byte>(staging.get()), length, static_cast<std::byte *>(to));
}

}  // namespace qwisp
