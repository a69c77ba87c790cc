#include "metal_runtime/drivers/cpu/vector/read_floor.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "metal_runtime/drivers/cpu/vector/large_pages.h"
#include "metal_runtime/drivers/cpu/vector/team.h"

namespace qwisp::metal::vector {

namespace {

// Vectors of every build's baseline.
using Word = uint64_t __attribute__((vector_size(16), may_alias));

void read(const std::byte *from, size_t lines) {
    const auto *words = reinterpret_cast<const Word *>(from);
    Word a = {}, b = {}, c = {}, d = {};  // none waits for another
    for (size_t line = 0; line < lines; line++, words += kCacheLine / sizeof(Word)) {
        a |= words[0];
        b |= words[1];
        c |= words[2];
        d |= words[3];
    }
    const Word all = a | b | c | d;
    asm volatile("" : : "r"(all[0] | all[1]));  // or nothing would be read
}

}  // namespace

ReadFloor::ReadFloor(size_t sets, size_t bytes) : sets_(sets), bytes_(bytes) {
    if (bytes % kCacheLine != 0) {
        throw std::invalid_argument("bytes: " + std::to_string(bytes) + ", but it must be a multiple of " +
                                    std::to_string(kCacheLine));
    }
    if (sets > SIZE_MAX / 2 / std::max(bytes, size_t{1})) throw std::bad_alloc();
    memory_ = large_page_memory(sets * bytes);
    memset(memory_.get(), 1, sets * bytes);  // pages never written would all be the system's one of zeros
}

void ReadFloor::run() const {
    const size_t lines = bytes_ / kCacheLine;
    Team::Session session(Team::shared(), UINT64_MAX);
    const uint32_t parts = session.threads();
    for (size_t set = 0; set < sets_; set++) {
        const std::byte *const from = memory_.get() + set * bytes_;
        session.run(parts, bytes_, [&](uint32_t part) {
            const size_t first = lines * part / parts;
            read(from + first * kCacheLine, lines * (part + 1) / parts - first);
        });
    }
}

}  // namespace qwisp::metal::vector
