// Memory for what is read whole and often.
#pragma once
#include <cstddef>
#include <memory>

namespace qwisp::metal::vector {

constexpr size_t kCacheLine = 64;

// `length` bytes, aligned to a cache line, in large pages where the system has them. Small allocations share
// a page, which is given back with the last of them. Throws std::bad_alloc.
std::shared_ptr<std::byte> large_page_memory(size_t length);

}  // namespace qwisp::metal::vector
