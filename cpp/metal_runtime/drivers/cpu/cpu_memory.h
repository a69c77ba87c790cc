// Memory of the CPU driver.
#pragma once
#include <cstddef>
#include <memory>

#include "metal_runtime/device/driver.h"

namespace qwisp::metal {

class CpuMemory final : public Memory {
  public:
    // Null when the memory cannot be had.
    static std::unique_ptr<CpuMemory> allocate(size_t length, Storage storage);
    CpuMemory(void *contents, size_t length) : data_(static_cast<std::byte *>(contents)), length_(length) {}
    ~CpuMemory() override;

    void *contents() override { return visible_ ? data_ : nullptr; }
    uint64_t gpu_address() override { return reinterpret_cast<uintptr_t>(data_); }
    std::byte *data() { return data_; }
    bool holds(size_t offset, size_t length) const { return offset <= length_ && length <= length_ - offset; }

  private:
    std::byte *data_;
    size_t length_;
    void *allocation_ = nullptr;
    bool visible_ = true;
};

}  // namespace qwisp::metal
