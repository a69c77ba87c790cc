// Barriers and simdgroup operations: rendezvous of fibres in the executor. `line` is the caller's, so that
// two calls of one operation on different lines do not pass for the same.
#pragma once
#include "msl_memory.h"

QWISP_SIMT_BEGIN

enum class mem_flags : uint { mem_none = 0, mem_device = kMemDevice, mem_threadgroup = kMemThreadgroup };
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
    return static_cast<mem_flags>(static_cast<uint>(a) | static_cast<uint>(b));
}

inline void threadgroup_barrier(mem_flags flags, uint line = __builtin_LINE()) {
    current->services->barrier(Rendezvous::threadgroup_barrier, static_cast<uint>(flags), line);
}
inline void simdgroup_barrier(mem_flags flags, uint line = __builtin_LINE()) {
    current->services->barrier(Rendezvous::simdgroup_barrier, static_cast<uint>(flags), line);
}

// MSL 3.2. Orders of their own type: the operations on atomics take no other than relaxed.
enum fence_order { memory_order_acquire, memory_order_release, memory_order_acq_rel, memory_order_seq_cst };
enum thread_scope { thread_scope_device };
inline void atomic_thread_fence(mem_flags flags, fence_order order, thread_scope = thread_scope_device) {
    current->services->fence(static_cast<uint>(flags), order != memory_order_release,
                             order != memory_order_acquire);
}

inline uint simd_words(Rendezvous kind, uint value, uint operand, uint line) {
    return current->services->simd(kind, value, operand, line);
}

#define QWISP_SIMD_REDUCTION(name, T, kind)                                             \
    inline T name(T value, uint line = __builtin_LINE()) {                              \
        return as_type<T>(simd_words(Rendezvous::kind, as_type<uint>(value), 0, line)); \
    }
QWISP_SIMD_REDUCTION(simd_sum, float, simd_sum_f32)  // the butterfly 16, 8, 4, 2, 1
QWISP_SIMD_REDUCTION(simd_sum, uint, simd_sum_u32)
QWISP_SIMD_REDUCTION(simd_sum, int, simd_sum_u32)
QWISP_SIMD_REDUCTION(simd_max, float, simd_max_f32)
QWISP_SIMD_REDUCTION(simd_max, uint, simd_max_u32)
QWISP_SIMD_REDUCTION(simd_max, int, simd_max_i32)
QWISP_SIMD_REDUCTION(simd_min, float, simd_min_f32)
QWISP_SIMD_REDUCTION(simd_min, uint, simd_min_u32)
QWISP_SIMD_REDUCTION(simd_min, int, simd_min_i32)
#undef QWISP_SIMD_REDUCTION

inline bool simd_any(bool value, uint line = __builtin_LINE()) {
    return simd_words(Rendezvous::simd_any, value, 0, line) != 0;
}
inline bool simd_all(bool value, uint line = __builtin_LINE()) {
    return simd_words(Rendezvous::simd_all, value, 0, line) != 0;
}

#define QWISP_SIMD_MOVE(name, operand, T, Bits)                                                    \
    inline T name(T value, uint operand, uint line = __builtin_LINE()) {                           \
        return as_type<T>(                                                                         \
            static_cast<Bits>(simd_words(Rendezvous::name, as_type<Bits>(value), operand, line))); \
    }
#define QWISP_SIMD_MOVES(name, operand)            \
    QWISP_SIMD_MOVE(name, operand, float, uint)    \
    QWISP_SIMD_MOVE(name, operand, uint, uint)     \
    QWISP_SIMD_MOVE(name, operand, int, uint)      \
    QWISP_SIMD_MOVE(name, operand, ushort, ushort) \
    QWISP_SIMD_MOVE(name, operand, half, ushort)
QWISP_SIMD_MOVES(simd_broadcast, lane)
QWISP_SIMD_MOVES(simd_shuffle, lane)
QWISP_SIMD_MOVES(simd_shuffle_xor, mask)
#undef QWISP_SIMD_MOVES
#undef QWISP_SIMD_MOVE

QWISP_SIMT_END
