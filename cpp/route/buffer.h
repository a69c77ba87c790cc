// Buffers, what the host reads and writes of them, and scoped autorelease pools.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <cstddef>
#include <span>

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
// What kernels work on: private, and out of the host's sight, where shared memory is far from the device;
// shared where it is near. Zero-filled. Throws AllocationError.
BufferPtr new_working_buffer(MTL::Device *device, size_t length, const char *label);
// The same with a copy of `bytes`. Blocks until it is there. Throws AllocationError, DeviceError.
BufferPtr new_working_buffer(MTL::CommandQueue *queue, const void *bytes, size_t length, const char *label);

inline bool is_visible(MTL::Buffer *buffer) { return buffer->contents() != nullptr; }
// Copies the start of a buffer to the host, by a blit if the host does not see it. Blocks; throws as above.
void read_buffer(MTL::CommandQueue *queue, MTL::Buffer *from, void *to, size_t length);
// Overwrites all of each buffer, all visible or none; likewise.
void fill_buffers(MTL::CommandQueue *queue, std::span<MTL::Buffer *const> buffers, std::byte value);

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
