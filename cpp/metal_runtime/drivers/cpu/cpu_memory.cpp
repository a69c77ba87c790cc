#include "cpu_memory.h"

#include <cstdlib>
#include <mutex>
#include <new>

#include "metal_runtime/device/fork.h"

namespace qwisp::metal {

namespace {

constexpr size_t kAlignment = 16 * 1024;  // a page of Apple's systems

uint64_t next_contents_id() {
    static std::atomic<uint64_t> next = 1;
    return next.fetch_add(1, std::memory_order_relaxed);
}

// Guards derived_ of all memories, for as long as a pointer is copied.
ForkSafeMutex &derived_mutex = *new ForkSafeMutex;

}  // namespace

CpuMemory::CpuMemory(void *contents, size_t length)
    : data_(static_cast<std::byte *>(contents)), length_(length), contents_id_(next_contents_id()) {}

void CpuMemory::contents_changed() { contents_id_.store(next_contents_id(), std::memory_order_relaxed); }

std::shared_ptr<const Derived> CpuMemory::derived() const {
    const std::lock_guard lock(derived_mutex);
    return derived_;
}

void CpuMemory::set_derived(std::shared_ptr<const Derived> derived) {
    const std::lock_guard lock(derived_mutex);
    derived_.swap(derived);  // the caller frees what was there
}

std::unique_ptr<CpuMemory> CpuMemory::allocate(size_t length, Storage storage) {
    if (length > SIZE_MAX - kAlignment) return nullptr;
    void *const allocation = std::calloc(1, length + kAlignment);  // large ones are not touched until used
    if (allocation == nullptr) return nullptr;
    const size_t past = reinterpret_cast<uintptr_t>(allocation) % kAlignment;
    auto *const data = static_cast<std::byte *>(allocation) + (past == 0 ? 0 : kAlignment - past);
    auto *const memory = new (std::nothrow) CpuMemory(data, length);
    if (memory == nullptr) {
        std::free(allocation);
        return nullptr;
    }
    memory->allocation_ = allocation;
    memory->visible_ = storage == Storage::shared;
    return std::unique_ptr<CpuMemory>(memory);
}

CpuMemory::~CpuMemory() { std::free(allocation_); }

}  // namespace qwisp::metal
