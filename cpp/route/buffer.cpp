#include "route/buffer.h"

#include <algorithm>
#include <string>

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

}  // namespace

BufferPtr new_shared_buffer(MTL::Device *device, size_t length, const char *label) {
    const size_t rounded = std::max(length, kSmallestBuffer);
    const bool fits = rounded <= device->maxBufferLength();
    return labelled(device, fits ? device->newBuffer(rounded, MTL::ResourceStorageModeShared) : nullptr,
                    length, label);
}

BufferPtr new_shared_buffer(MTL::Device *device, const void *bytes, size_t length, const char *label) {
    BufferPtr buffer = new_shared_buffer(device, length, label);
    std::copy_n(static_cast<const std::byte *>(bytes), length, contents<std::byte>(buffer.get()));
    return buffer;
}

}  // namespace qwisp
