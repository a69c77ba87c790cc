#include "metal_runtime/device/buffer.h"

#include <unistd.h>

#include <cstring>

namespace qwisp::metal {
namespace {

void check(const char *call, size_t length, MTL::ResourceOptions options, bool from_host) {
    if (length == 0)
        refuse(Misuse::buffer_length, std::string(call) + ": length 0, but a buffer holds at least 1 byte");
    const auto storage = MTL::StorageMode(options >> 4 & 0xf);
    const bool private_ = storage == MTL::StorageModePrivate;
    if (storage > MTL::StorageModePrivate || (private_ && from_host)) {
        refuse(Misuse::buffer_storage,
               std::string(call) + ": storage mode " + std::to_string(storage) +
                   ", but it must be shared (0)" +
                   (from_host ? ", because the host's bytes are given" : " or private (2)"));
    }
}

MTL::Buffer *make(MTL::Device *device, std::unique_ptr<Memory> memory, size_t length,
                  MTL::ResourceOptions options) {
    if (!memory) return nullptr;
    auto core = objc::payload<DeviceState>(device).core;
    return buffer_class().create<MTL::Buffer>(
        device, std::make_shared<Allocation>(std::move(core), std::move(memory), length, options));
}

std::unique_ptr<Memory> allocate(MTL::Device *device, size_t length, Storage storage) {
    DeviceCore &core = *core_of(device);
    return length > core.limits.max_buffer_length ? nullptr : core.driver->allocate(length, storage);
}

void check_modified(const BufferState &self, NS::Range range) {
    const Allocation &allocation = *self.allocation;
    const std::string call = "didModifyRange of " + allocation.name();
    if (allocation.storage() != MTL::StorageModeManaged) {
        refuse(Misuse::modified_range, call + ": only for managed storage");
    }
    if (range.location > allocation.length || range.length > allocation.length - range.location) {
        refuse(Misuse::modified_range, call + ": " + std::to_string(range.length) + " bytes from " +
                                           std::to_string(range.location) + " on end beyond the buffer");
    }
}

}  // namespace

Allocation::Allocation(std::shared_ptr<DeviceCore> device_, std::unique_ptr<Memory> memory_, size_t length_,
                       MTL::ResourceOptions options_)
    : device(std::move(device_)), memory(std::move(memory_)), length(length_), options(options_) {
    device->allocated.fetch_add(length, std::memory_order_relaxed);
}

Allocation::~Allocation() {
    memory.reset();
    device->allocated.fetch_sub(length, std::memory_order_relaxed);
    if (deallocator) deallocator(host_bytes, NS::UInteger(length));
}

std::string Allocation::name() const {
    return "buffer" + quoted(memory->label) + " (" + std::to_string(length) + " bytes)";
}

BufferState::BufferState(MTL::Device *device_, std::shared_ptr<Allocation> allocation_)
    : device(NS::RetainPtr(device_)), allocation(std::move(allocation_)) {}

const objc::PayloadClass<BufferState> &buffer_class() {
    static const auto cls =
        objc::PayloadClass<BufferState>("QwispBuffer")
            .method("device", [](const BufferState &self) { return self.device.get(); })
            .method("length", [](const BufferState &self) -> NS::UInteger { return self.allocation->length; })
            .method("allocatedSize",
                    [](const BufferState &self) -> NS::UInteger { return self.allocation->length; })
            .method("contents",
                    [](const BufferState &self) -> void * {
                        const Allocation &allocation = *self.allocation;
                        const bool hidden = allocation.storage() == MTL::StorageModePrivate;
                        return hidden ? nullptr : allocation.memory->contents();
                    })
            .method(
                "gpuAddress",
                [](const BufferState &self) -> uint64_t { return self.allocation->memory->gpu_address(); })
            .method("label",
                    [](const BufferState &self) { return ns_string(self.allocation->memory->label.get()); })
            .method("setLabel:",
                    [](BufferState &self, NS::String *label) {
                        self.allocation->memory->label.set(text_of(label));
                    })
            .method("resourceOptions", [](const BufferState &self) { return self.allocation->options; })
            .method("storageMode", [](const BufferState &self) { return self.allocation->storage(); })
            .method("cpuCacheMode",
                    [](const BufferState &self) { return MTL::CPUCacheMode(self.allocation->options & 0xf); })
            .method("hazardTrackingMode",
                    [](const BufferState &self) {
                        const auto mode = MTL::HazardTrackingMode(self.allocation->options >> 8 & 0x3);
                        return mode == MTL::HazardTrackingModeDefault ? MTL::HazardTrackingModeTracked : mode;
                    })
            .method("heap", [](const BufferState &) -> MTL::Heap * { return nullptr; })
            .method("setPurgeableState:",
                    [](BufferState &, MTL::PurgeableState) { return MTL::PurgeableStateNonVolatile; })
            .method("didModifyRange:",
                    [](const BufferState &self, NS::Range range) { check_modified(self, range); })
            .method("addDebugMarker:range:", [](BufferState &, NS::String *, NS::Range) {})
            .method("removeAllDebugMarkers", [](BufferState &) {})
            .registered();
    return cls;
}

MTL::Buffer *new_buffer(MTL::Device *device, size_t length, MTL::ResourceOptions options) {
    check("newBuffer", length, options, false);
    const bool private_ = (options >> 4 & 0xf) == MTL::StorageModePrivate;
    return make(device, allocate(device, length, private_ ? Storage::private_ : Storage::shared), length,
                options);
}

MTL::Buffer *new_buffer(MTL::Device *device, const void *bytes, size_t length, MTL::ResourceOptions options) {
    check("newBuffer with bytes", length, options, true);
    if (!bytes) refuse(Misuse::null_argument, "newBuffer with bytes: bytes is null");
    auto memory = allocate(device, length, Storage::shared);
    if (memory) std::memcpy(memory->contents(), bytes, length);
    return make(device, std::move(memory), length, options);
}

MTL::Buffer *new_buffer(MTL::Device *device, void *bytes, size_t length, MTL::ResourceOptions options,
                        BlockPointer deallocator) {
    check("newBuffer without a copy", length, options, true);
    if (!bytes) refuse(Misuse::null_argument, "newBuffer without a copy: bytes is null");
    const auto page = size_t(sysconf(_SC_PAGESIZE));
    const auto address = reinterpret_cast<uintptr_t>(bytes);
    if (address % page != 0 || length % page != 0) {
        refuse(Misuse::buffer_no_copy, "newBuffer without a copy: pointer " + std::to_string(address) +
                                           ", length " + std::to_string(length) +
                                           ", but both must be multiples of the page size " +
                                           std::to_string(page));
    }
    DeviceCore &core = *core_of(device);
    MTL::Buffer *const buffer = length > core.limits.max_buffer_length
                                    ? nullptr
                                    : make(device, core.driver->wrap(bytes, length), length, options);
    if (buffer) {
        Allocation &allocation = *objc::payload<BufferState>(buffer).allocation;
        allocation.deallocator = Block(deallocator);
        allocation.host_bytes = bytes;
    }
    return buffer;
}

MTL::Buffer *new_buffer(MTL::Device *device, std::unique_ptr<Memory> memory, size_t length) {
    check("newBuffer over foreign memory", length, MTL::ResourceStorageModePrivate, false);
    return make(device, std::move(memory), length, MTL::ResourceStorageModePrivate);
}

}  // namespace qwisp::metal
