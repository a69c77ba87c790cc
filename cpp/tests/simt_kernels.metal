// Kernels of the executor's own tests; an image of its own (qwisp_test_simt_image).
#include "compat.h"

#define QWISP_KERNELS(X) \
    X(reverse)           \
    X(order)             \
    X(count_up)          \
    X(sums)              \
    X(shuffles)          \
    X(partial)           \
    X(copy_shifted)      \
    X(store_shifted)     \
    X(load_words)        \
    X(array_access)      \
    X(large_arrays)      \
    X(branching_arrays)  \
    X(constants)         \
    X(undeclared)        \
    X(rounding)          \
    X(early_return)      \
    X(two_barriers)      \
    X(mixed_operations)  \
    X(barrier_or_sum)    \
    X(half_simdgroup)    \
    X(wrong_lane)        \
    X(wrong_mask)        \
    X(spin_on_load)      \
    X(spin_on_atomic)    \
    X(spin_on_barrier)   \
    X(deep_fault)        \
    X(where)

struct ShiftArgs {
    int shift;
};

enum TestSlot : uint { kSlotA, kSlotB, kSlotArgs };
enum TestConstant : uint { kFlagIndex, kNumberIndex, kFactorIndex };
QWISP_CONSTANT(bool, kFlag);
QWISP_CONSTANT(uint, kNumber);
QWISP_CONSTANT(float, kFactor);

QWISP_KERNEL(reverse)(QWISP_BUFFER(const uint, in, kSlotA), QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(uint, row, 1024);
    const uint threads = simdgroups * 32, base = group.x * threads;
    for (uint round = 0; round < 3; round++) {
        row[thread_index] = in[base + thread_index] + round;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        out[base + thread_index] = row[threads - 1 - thread_index];
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    }
}

// out[position] = ticket, for the order of threads and threadgroups.
QWISP_KERNEL(order)(QWISP_BUFFER(atomic_uint, ticket, kSlotA), QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    const uint at = (group.x * simdgroups * 32 + thread_index) * 2;
    out[at] = atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_none);
    out[at + 1] = atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed);
}

QWISP_KERNEL(count_up)(QWISP_BUFFER(atomic_uint, count, kSlotA) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(atomic_uint, local, 1);
    if (thread_index == 0) atomic_store_explicit(local, 5u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(local, 1u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_index == 0) {
        atomic_fetch_add_explicit(count, atomic_load_explicit(local, memory_order_relaxed), memory_order_relaxed);
        atomic_fetch_or_explicit(&count[1], 1u << group.x, memory_order_relaxed);
        atomic_exchange_explicit(count + 2, group.x + 1, memory_order_relaxed);
    }
}

QWISP_KERNEL(sums)(QWISP_BUFFER(const float, in, kSlotA), QWISP_BUFFER(float, out, kSlotB) QWISP_THREAD_ARGS) {
    out[thread_index] = simd_sum(in[thread_index]);
    out[1024 + thread_index] = simd_max(in[thread_index]);
    out[2048 + thread_index] = float(simd_sum(thread_index));
    out[3072 + thread_index] = float(simd_min(int(thread_index) - 40));
    simdgroup_barrier(mem_flags::mem_none);
    out[4096 + thread_index] = float(simd_any(lane == 3)) + 2.0f * float(simd_all(lane < 31));
}

QWISP_KERNEL(shuffles)(QWISP_BUFFER(const half, in, kSlotA), QWISP_BUFFER(half, out, kSlotB) QWISP_THREAD_ARGS) {
    const half mine = in[thread_index];
    out[thread_index] = simd_shuffle(mine, (lane * 7 + 3) % 32);
    out[32 + thread_index] = simd_shuffle_xor(mine, 5u);
    out[64 + thread_index] = simd_broadcast(mine, 9u);
}

QWISP_KERNEL(partial)(QWISP_BUFFER(uint, out, kSlotA) QWISP_THREAD_ARGS) {
    out[thread_index] = simd_sum(1u) * 100 + simdgroups;
    threadgroup_barrier(mem_flags::mem_none);
}

QWISP_KERNEL(copy_shifted)(QWISP_BUFFER(const uint, in, kSlotA), QWISP_BUFFER(uint, out, kSlotB),
                           QWISP_ARGS(ShiftArgs, args, kSlotArgs) QWISP_THREAD_ARGS) {
    out[thread_index] = (in + args.shift)[thread_index];
}

QWISP_KERNEL(store_shifted)(QWISP_BUFFER(uint, out, kSlotB), QWISP_ARGS(ShiftArgs, args, kSlotArgs) QWISP_THREAD_ARGS) {
    (out + args.shift)[thread_index] = thread_index;
}

// Reads words at any byte offset.
QWISP_KERNEL(load_words)(QWISP_BUFFER(const uchar, in, kSlotA), QWISP_BUFFER(uint, out, kSlotB),
                         QWISP_ARGS(ShiftArgs, args, kSlotArgs) QWISP_THREAD_ARGS) {
    out[thread_index] = ((QWISP_DEVICE(const uint))(in + args.shift))[thread_index];
}

QWISP_KERNEL(array_access)(QWISP_BUFFER(uint, out, kSlotB), QWISP_ARGS(ShiftArgs, args, kSlotArgs) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(uint, row, 64);
    if (lane < 16) row[thread_index] = thread_index;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[thread_index] = row[uint(args.shift)];
}

QWISP_KERNEL(large_arrays)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(float, some, 4096);
    QWISP_THREADGROUP_ARRAY(float, more, 4097);
    some[0] = more[0] = 0.0f;
    out[0] = 0;
}

QWISP_KERNEL(branching_arrays)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    if (thread_index < 5) {
        QWISP_THREADGROUP_ARRAY(uint, low, 4);
        low[0] = out[0];
    } else {
        QWISP_THREADGROUP_ARRAY(uint, high, 4);
        high[0] = out[0];
    }
}

QWISP_KERNEL(constants)(QWISP_BUFFER(float, out, kSlotA), QWISP_BUFFER_IF(uint, extra, kSlotB, kFlag) QWISP_THREAD_ARGS) {
    out[0] = kFactor * float(kNumber);
    if (kFlag) extra[0] = kNumber;
    if (!kFlag && kNumber == 13) extra[0] = 0;
}

QWISP_KERNEL(undeclared)(QWISP_BUFFER(uint, out, kSlotA) QWISP_THREAD_ARGS) { out[0] = kNumber; }

// Whether subnormals live and additions round to nearest.
QWISP_KERNEL(rounding)(QWISP_BUFFER(const float, in, kSlotA), QWISP_BUFFER(float, out, kSlotB) QWISP_THREAD_ARGS) {
    out[0] = in[0] * in[1];
    out[1] = in[2] + in[3];
    const float a = in[4], b = in[5], c = in[6];
    out[2] = a * b + c;  // differs with contraction
}

QWISP_KERNEL(early_return)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    if (thread_index >= 50) return;
    threadgroup_barrier(mem_flags::mem_none);
    out[thread_index] = 1;
}

QWISP_KERNEL(two_barriers)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    if (simdgroup == 0) {
        threadgroup_barrier(mem_flags::mem_none);
    } else {
        threadgroup_barrier(mem_flags::mem_none);
    }
    out[thread_index] = 1;
}

QWISP_KERNEL(mixed_operations)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    uint value = thread_index;
    if (lane < 8) {
        value = simd_sum(value);
    } else {
        value = simd_max(value);
    }
    out[thread_index] = value;
}

QWISP_KERNEL(barrier_or_sum)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    if (thread_index == 33) {
        threadgroup_barrier(mem_flags::mem_none);
    } else {
        out[thread_index] = simd_sum(1u);
    }
}

QWISP_KERNEL(half_simdgroup)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    if (lane < 16) out[thread_index] = simd_sum(1u);
}

QWISP_KERNEL(wrong_lane)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    out[thread_index] = simd_shuffle(thread_index, lane + 1);
}

QWISP_KERNEL(wrong_mask)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    out[thread_index] = simd_shuffle_xor(thread_index, lane == 7 ? 2u : 1u);
}

QWISP_KERNEL(spin_on_load)(QWISP_BUFFER(const uint, flag, kSlotA) QWISP_THREAD_ARGS) {
    while (flag[0] == 0) {
    }
}

QWISP_KERNEL(spin_on_atomic)(QWISP_BUFFER(atomic_uint, flag, kSlotA) QWISP_THREAD_ARGS) {
    while (atomic_load_explicit(flag, memory_order_relaxed) == 0) {
    }
}

QWISP_KERNEL(spin_on_barrier)(QWISP_BUFFER(const uint, flag, kSlotA) QWISP_THREAD_ARGS) {
    while (flag[0] == 0) threadgroup_barrier(mem_flags::mem_device);
}

// Fails in one thread, many calls deep, while the others wait in as many.
inline uint deep(uint depth, uint thread_index, QWISP_DEVICE(uint) out) {
    if (depth > 0) return deep(depth - 1, thread_index, out) + out[0];
    if (thread_index == 7) out[1u << 30] = 1;
    threadgroup_barrier(mem_flags::mem_none);
    return 1;
}
QWISP_KERNEL(deep_fault)(QWISP_BUFFER(uint, out, kSlotB) QWISP_THREAD_ARGS) {
    out[thread_index] = deep(20, thread_index, out);
}

QWISP_KERNEL(where)(QWISP_BUFFER(uint, out, kSlotA) QWISP_THREAD_ARGS) {
    const uint at = ((group.z * groups.y + group.y) * groups.x + group.x) * 64 + thread_index;
    out[at] = group.x + 10 * group.y + 100 * group.z + 1000 * simdgroup + 10000 * lane;
}
