// Shared buffers and scoped autorelease pools.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <cstddef>

namespace qwisp {

using BufferPtr = NS::SharedPtr<MTL::Buffer>;

// Zero-filled, visible to the host. A length of 0 becomes a small buffer, because Metal has no empty ones.
// Throws AllocationError (naming the label, the length and the device's limit).
BufferPtr new_shared_buffer(MTL::Device *device, size_t length, const char *label);
BufferPtr new_shared_buffer(MTL::Device *device, const void *bytes, size_t length, const char *label);
// Holds a copy of `bytes` that only commands can change, so that the device may keep it as it likes (the CPU
// device keeps gates in the order of its vector kernels). Blocks until it is there. Throws AllocationError,
// DeviceError.
BufferPtr new_private_buffer(MTL::CommandQueue *queue, const void *bytes, size_t length, const char *label);
// Copies the start of a private buffer to the host. Blocks; throws as above.
void read_private_buffer(MTL::CommandQueue *queue, MTL::Buffer *from, void *to, size_t length);

template <typename T>
T *contents(MTL::Buffer *buffer) {
    return static_cast<T *>(buffer->contents());
}

class AutoreleaseScope {
  public:
    AutoreleaseScope() : pool_(NS::AutoreleasePool::alloc()->init()) {}
    ~AutoreleaseScope() { pool_->release(); }
    AutoreleaseScope(const AutoreleaseScope &) = delete;
    AutoreleaseScope &operator=(const AutoreleaseScope &) = delete;

  private:
    NS::AutoreleasePool *pool_;
};

}  // namespace qwisp
