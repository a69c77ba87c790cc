// Buffers. Command buffers share the memory, so that it outlives the MTL::Buffer while they need it.
#pragma once
#include <atomic>
#include <memory>

#include "metal_runtime/device/device.h"

namespace qwisp::metal {

struct Allocation {
    Allocation(std::shared_ptr<DeviceCore> device, std::unique_ptr<Memory> memory, size_t length,
               MTL::ResourceOptions options);
    ~Allocation();
    Allocation(const Allocation &) = delete;
    Allocation &operator=(const Allocation &) = delete;

    MTL::StorageMode storage() const { return MTL::StorageMode(options >> 4 & 0xf); }
    std::string name() const;  // "buffer 'x' (4096 bytes)"

    const std::shared_ptr<DeviceCore> device;
    std::unique_ptr<Memory> memory;
    const size_t length;
    const MTL::ResourceOptions options;
    Block deallocator;  // of memory that the host owns
    void *host_bytes = nullptr;

    std::atomic<uint64_t> holder = 0;    // the command buffer that took a share last
    std::atomic<bool> released = false;  // the MTL::Buffer is gone
};

struct BufferState {
    BufferState(MTL::Device *device, std::shared_ptr<Allocation> allocation);
    ~BufferState() { allocation->released.store(true, std::memory_order_relaxed); }

    const DeviceCore *core() const { return allocation->device.get(); }

    const NS::SharedPtr<MTL::Device> device;
    const std::shared_ptr<Allocation> allocation;
};

const objc::PayloadClass<BufferState> &buffer_class();

// The three ways of MTL::Device to make one. Null if the memory cannot be had.
MTL::Buffer *new_buffer(MTL::Device *device, size_t length, MTL::ResourceOptions options);
MTL::Buffer *new_buffer(MTL::Device *device, const void *bytes, size_t length, MTL::ResourceOptions options);
MTL::Buffer *new_buffer(MTL::Device *device, void *bytes, size_t length, MTL::ResourceOptions options,
                        BlockPointer deallocator);
// Over memory of the driver that somebody else keeps alive.
MTL::Buffer *new_buffer(MTL::Device *device, std::unique_ptr<Memory> memory, size_t length);

}  // namespace qwisp::metal
