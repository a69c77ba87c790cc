// Memory of the CUDA driver: private is the device's own, shared is pinned memory of the host that the device
// reads and writes across the bus. Never managed memory.
#pragma once
#include <cstddef>
#include <memory>

#include "gpu.h"
#include "metal_runtime/device/driver.h"

namespace qwisp::metal {

class CudaMemory final : public Memory {
  public:
    // Null when the memory cannot be had. Zero-filled.
    static std::unique_ptr<CudaMemory> allocate(std::shared_ptr<cuda::Gpu> gpu, size_t length,
                                                Storage storage);
    static std::unique_ptr<CudaMemory> wrap(std::shared_ptr<cuda::Gpu> gpu, void *contents, size_t length);
    // Somebody else's memory of the device, who keeps it alive.
    CudaMemory(std::shared_ptr<cuda::Gpu> gpu, cuda::DevicePointer address, size_t length);
    ~CudaMemory() override;

    void *contents() override { return host_; }
    uint64_t gpu_address() override { return address_; }
    cuda::DevicePointer address() const { return address_; }
    bool holds(size_t offset, size_t length) const { return offset <= length_ && length <= length_ - offset; }

  private:
    enum class Origin { device, host, wrapped, foreign };

    std::shared_ptr<cuda::Gpu> gpu_;
    Origin origin_ = Origin::foreign;
    void *host_ = nullptr;
    cuda::DevicePointer address_ = 0;
    size_t length_;
};

}  // namespace qwisp::metal
