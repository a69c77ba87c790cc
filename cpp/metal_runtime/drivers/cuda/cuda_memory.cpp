#include "cuda_memory.h"

#include <cstring>

namespace qwisp::metal {

using cuda::api;

constexpr unsigned kHostFlags = cuda::kHostPortable | cuda::kHostMapped;

CudaMemory::CudaMemory(std::shared_ptr<cuda::Gpu> gpu, cuda::DevicePointer address, size_t length)
    : gpu_(std::move(gpu)), address_(address), length_(length) {}

std::unique_ptr<CudaMemory> CudaMemory::allocate(std::shared_ptr<cuda::Gpu> gpu, size_t length,
                                                 Storage storage) {
    const cuda::Current current(*gpu);
    if (!current) return nullptr;
    const auto failed = [&](const char *call, cuda::Result result) {
        return !gpu->check(call, result).empty();
    };
    auto memory = std::make_unique<CudaMemory>(gpu, 0, length);
    if (storage == Storage::private_) {
        if (failed("allocating", api()->allocate(&memory->address_, length))) return nullptr;
        memory->origin_ = Origin::device;
        return gpu->zero(memory->address_, length).empty() ? std::move(memory) : nullptr;
    }
    if (failed("allocating", api()->host_allocate(&memory->host_, length, kHostFlags))) return nullptr;
    memory->origin_ = Origin::host;
    std::memset(memory->host_, 0, length);
    if (failed("mapping", api()->host_pointer(&memory->address_, memory->host_, 0))) return nullptr;
    return memory;
}

std::unique_ptr<CudaMemory> CudaMemory::wrap(std::shared_ptr<cuda::Gpu> gpu, void *contents, size_t length) {
    const cuda::Current current(*gpu);
    if (!current) return nullptr;
    auto memory = std::make_unique<CudaMemory>(gpu, 0, length);
    if (!gpu->check("registering", api()->host_register(contents, length, kHostFlags)).empty())
        return nullptr;
    memory->origin_ = Origin::wrapped;
    memory->host_ = contents;
    if (!gpu->check("mapping", api()->host_pointer(&memory->address_, contents, 0)).empty()) return nullptr;
    return memory;
}

CudaMemory::~CudaMemory() {
    if (origin_ == Origin::foreign) return;
    const cuda::Current current(*gpu_);
    if (!current) return;  // lost: it went with the context
    switch (origin_) {
        case Origin::device:
            api()->free(address_);  // waits until nothing uses it any more
            break;
        case Origin::host:
            api()->host_free(host_);
            break;
        case Origin::wrapped:
            api()->host_unregister(host_);
            break;
        case Origin::foreign:
            break;
    }
}

}  // namespace qwisp::metal
