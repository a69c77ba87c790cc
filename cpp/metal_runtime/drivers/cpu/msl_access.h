// Every access of a kernel to device or threadgroup memory passes one of the three functions here: load,
// store, atomic. What they refuse, and everything in a region whose fast_length is 0, goes to the executor.
#pragma once
#include "image.h"
#include "msl_types.h"

QWISP_SIMT_BEGIN

inline constinit thread_local ThreadContext *current = nullptr;
inline ThreadContext **current_slot() { return &current; }

enum class Space { device, threadgroup };

template <class T>
inline bool in_bounds(Region &region, size_t offset) {
    return offset <= region.fast_length && region.fast_length - offset >= sizeof(T) &&
           (reinterpret_cast<uintptr_t>(region.base) + offset) % alignof(T) == 0 && --region.budget >= 0;
}

// Whether every byte of an aligned T was written.
template <class T>
inline bool initialised(const Region &region, size_t offset) {
    unsigned char written[sizeof(T)], all[sizeof(T)];
    std::memcpy(written, region.shadow + offset, sizeof(T));
    std::memset(all, 0xff, sizeof(T));
    return std::memcmp(written, all, sizeof(T)) == 0;
}

template <Space S, class T>
inline T load(Region &region, size_t offset) {
    T value;
    if (in_bounds<T>(region, offset) && (S == Space::device || initialised<T>(region, offset))) [[likely]] {
        std::memcpy(&value, region.base + offset, sizeof(T));
    } else {
        current->services->load({&region, offset, sizeof(T), alignof(T)}, &value);
    }
    return value;
}

template <Space S, class T>
inline void store(Region &region, size_t offset, const T &value) {
    if (in_bounds<T>(region, offset)) [[likely]] {
        std::memcpy(region.base + offset, &value, sizeof(T));
        if (S == Space::threadgroup) std::memset(region.shadow + offset, 0xff, sizeof(T));
    } else {
        current->services->store({&region, offset, sizeof(T), alignof(T)}, &value);
    }
}

template <Space S>
inline uint atomic(Region &region, size_t offset, AtomicOp op, uint operand) {
    if (!in_bounds<uint>(region, offset) || (S == Space::threadgroup && op != AtomicOp::store &&
                                             !initialised<uint>(region, offset))) [[unlikely]] {
        return current->services->atomic({&region, offset, sizeof(uint), alignof(uint)}, op, operand);
    }
    const uint before = apply(op, reinterpret_cast<uint *>(region.base + offset), operand);
    if (S == Space::threadgroup && op == AtomicOp::store) {
        std::memset(region.shadow + offset, 0xff, sizeof(uint));
    }
    return before;
}

QWISP_SIMT_END
