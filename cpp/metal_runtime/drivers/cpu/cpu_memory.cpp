#include "cpu_memory.h"

#include <cstdlib>
#include <new>

namespace qwisp::metal {

namespace {

constexpr size_t kAlignment = 16 * 1024;  // a page of Apple's systems

}  // namespace

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
