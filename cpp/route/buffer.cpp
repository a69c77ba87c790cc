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
    size_t rounded = std::max(length, kSmallestBuffer);
    if (options == MTL::ResourceStorageModePrivate) rounded = blit_length(rounded);
    const bool fits = rounded <= device->maxBufferLength();
    return labelled(device, fits ? device->newBuffer(rounded, options) : nullptr, length, label);
}

void copy(MTL::CommandQueue *queue, MTL::Buffer *from, MTL::Buffer *to, size_t length) {
    if (length == 0) return;
    AutoreleaseScope pool;
    MTL::CommandBuffer *const commands = new_commands(queue);
    const BufferCopy all{from, to, length};
    encode_copies(commands, {&all, 1});
    complete(commands);
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
    const BufferPtr staging = new_shared_buffer(device, blit_length(length), label);
    std::copy_n(static_cast<const std::byte *>(bytes), length, contents<std::byte>(staging.get()));
    BufferPtr buffer = new_buffer(device, length, MTL::ResourceStorageModePrivate, label);
    copy(queue, staging.get(), buffer.get(), length);
    return buffer;
}

BufferPtr new_working_buffer(MTL::Device *device, size_t length, const char *label) {
    return new_buffer(
        device, length,
        device->hasUnifiedMemory() ? MTL::ResourceStorageModeShared : MTL::ResourceStorageModePrivate, label);
}

BufferPtr new_working_buffer(MTL::CommandQueue *queue, const void *bytes, size_t length, const char *label) {
    MTL::Device *const device = queue->device();
    return device->hasUnifiedMemory() ? new_shared_buffer(device, bytes, length, label)
                                      : new_private_buffer(queue, bytes, length, label);
}

void read_buffer(MTL::CommandQueue *queue, MTL::Buffer *from, void *to, size_t length) {
    BufferPtr visible = NS::RetainPtr(from);
    if (!is_visible(from)) {
        visible = new_shared_buffer(queue->device(), blit_length(length), "staging");
        copy(queue, from, visible.get(), length);
    }
    std::copy_n(contents<std::byte>(visible.get()), length, static_cast<std::byte *>(to));
}

void fill_buffers(MTL::CommandQueue *queue, std::span<MTL::Buffer *const> buffers, std::byte value) {
    if (!buffers.empty() && !is_visible(buffers.front())) {
        AutoreleaseScope pool;
        MTL::CommandBuffer *const commands = new_commands(queue);
        encode_fills(commands, buffers, value);
        return complete(commands);
    }
    for (MTL::Buffer *const buffer : buffers) {
        std::fill_n(contents<std::byte>(buffer), buffer->length(), value);
    }
}

}  // namespace qwisp
