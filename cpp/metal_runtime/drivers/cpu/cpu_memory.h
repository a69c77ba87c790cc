// Memory of the CPU driver.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "metal_runtime/device/driver.h"

namespace qwisp::metal {

// What the driver derives from the contents of memory that only commands can change.
struct Derived {
    virtual ~Derived() = default;
};

class CpuMemory final : public Memory {
  public:
    // Null when the memory cannot be had.
    static std::unique_ptr<CpuMemory> allocate(size_t length, Storage storage);
    CpuMemory(void *contents, size_t length);
    ~CpuMemory() override;

    void *contents() override { return visible_ ? data_ : nullptr; }
    uint64_t gpu_address() override { return reinterpret_cast<uintptr_t>(data_); }
    std::byte *data() { return data_; }
    bool holds(size_t offset, size_t length) const { return offset <= length_ && length <= length_ - offset; }

    // Where the host sees the memory, its contents change without the driver's knowledge.
    bool is_private() const { return !visible_; }
    // Differs between two memories, even at one address, and from before to after a command that may write
    // here.
    uint64_t contents_id() const { return contents_id_.load(std::memory_order_relaxed); }
    void contents_changed();
    std::shared_ptr<const Derived> derived() const;
    void set_derived(std::shared_ptr<const Derived> derived);

  private:
    std::byte *data_;
    size_t length_;
    void *allocation_ = nullptr;
    bool visible_ = true;
    std::atomic<uint64_t> contents_id_;
    std::shared_ptr<const Derived> derived_;
};

}  // namespace qwisp::metal
