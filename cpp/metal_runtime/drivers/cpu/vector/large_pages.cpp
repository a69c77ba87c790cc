#include "metal_runtime/drivers/cpu/vector/large_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <new>

#include "metal_runtime/device/fork.h"

namespace qwisp::metal::vector {

namespace {

constexpr size_t kLargePage = size_t{2} << 20;

constexpr size_t round_up(size_t length, size_t unit) { return (length + unit - 1) / unit * unit; }

std::shared_ptr<std::byte> new_pages(size_t length) {
    void *const pages = std::aligned_alloc(kLargePage, length);
    if (pages == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    madvise(pages, length, MADV_HUGEPAGE);
#endif
    return {static_cast<std::byte *>(pages), std::free};
}

struct Shared {
    ForkSafeMutex mutex;
    std::weak_ptr<std::byte> pages;  // the last that were made
    size_t used = 0, length = 0;
};
Shared &shared = *new Shared;  // never destroyed: queue threads outlive main

}  // namespace

std::shared_ptr<std::byte> large_page_memory(size_t length) {
    if (length > SIZE_MAX - kLargePage) throw std::bad_alloc();
    length = round_up(length, kCacheLine);
    const std::lock_guard lock(shared.mutex);
    std::shared_ptr<std::byte> pages = shared.pages.lock();
    if (!pages || length > shared.length - shared.used) {
        shared.length = round_up(length, kLargePage);
        shared.used = 0;
        pages = new_pages(shared.length);
        shared.pages = pages;
    }
    std::byte *const start = pages.get() + shared.used;
    shared.used += length;
    return {std::move(pages), start};
}

}  // namespace qwisp::metal::vector
