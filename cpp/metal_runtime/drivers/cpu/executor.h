// Runs a dispatch of a kernel image on the calling thread.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "choices.h"
#include "image.h"
#include "schedule.h"

namespace qwisp::simt {

inline constexpr uint32_t kMaxThreads = 1024;
inline constexpr size_t kMaxThreadgroupMemory = 32 * 1024;

// What a threadgroup may do before it counts as a runaway: switches between its threads, and accesses to one
// buffer or threadgroup array.
struct RunawayLimits {
    uint64_t steps = uint64_t{1} << 27;
    int64_t accesses = int64_t{1} << 32;
    int64_t watched_accesses = int64_t{1}
                               << 22;  // to memory that the adversary watches: a lost word ends soon
};

struct Launch {
    const KernelImage *image;
    const FunctionImage *function;
    std::array<Region, kMaxSlots> arguments;          // by slot
    std::function<std::string(uint32_t slot)> label;  // of a buffer, for messages
    std::array<uint32_t, kMaxConstants> constants;
    uint32_t constants_set;  // one bit an index
    std::array<uint64_t, 3> groups;
    uint32_t threads;  // of a threadgroup
    Choices *choices;  // null: natural order, one threadgroup after another (see adversary.h)
    RunawayLimits limits;
};

// Returns an empty string, or the message of the fault that ended the dispatch.
std::string execute(Launch &launch);

// The bytes of threadgroup memory that the kernel declares.
size_t threadgroup_memory_of(const KernelImage &image, const FunctionImage &function,
                             const std::array<uint32_t, kMaxConstants> &constants, uint32_t constants_set);

constexpr size_t place_array(size_t used, size_t alignment) {
    const size_t unit = alignment > 16 ? alignment : 16;
    return (used + unit - 1) / unit * unit;
}

}  // namespace qwisp::simt
