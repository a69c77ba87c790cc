// Kernels that tell one memory model from another; an image of its own (qwisp_test_litmus_image). The first two
// threadgroups have different parts. `words` and `data` start as 0, `out` as what no kernel writes.
#include "compat.h"

#define QWISP_KERNELS(X) \
    X(publish)           \
    X(store_buffering)   \
    X(two_writes_each)   \
    X(coherence)         \
    X(handed_on)         \
    X(within_group)      \
    X(all_at_once)       \
    X(last_arriver)      \
    X(neighbours)        \
    X(plain_and_atomic)  \
    X(pass_left)         \
    X(pass_lanes)        \
    X(narrow)            \
    X(counted)

enum LitmusSlot : uint { kWords, kData, kOut };
enum LitmusConstant : uint { kPlainIndex, kReleaseIndex, kAcquireIndex, kFlagsIndex };
QWISP_CONSTANT(bool, kPlain);
QWISP_CONSTANT(bool, kRelease);
QWISP_CONSTANT(bool, kAcquire);
QWISP_CONSTANT(uint, kFlags);

#define WORDS QWISP_BUFFER(atomic_uint, words, kWords)
#define DATA QWISP_BUFFER(uint, data, kData)
#define OUT QWISP_BUFFER(uint, out, kOut)

inline void set(QWISP_DEVICE(atomic_uint) word, uint value) {
    atomic_store_explicit(word, value, memory_order_relaxed);
}
inline uint get(QWISP_DEVICE(atomic_uint) word) { return atomic_load_explicit(word, memory_order_relaxed); }
inline void release() { atomic_thread_fence(mem_flags::mem_device, memory_order_release, thread_scope_device); }
inline void acquire() { atomic_thread_fence(mem_flags::mem_device, memory_order_acquire); }

// Message passing: out = what the reader finds in the flag and then in the data.
QWISP_KERNEL(publish)(QWISP_USES(kPlain, kRelease, kAcquire) WORDS, DATA, OUT QWISP_THREAD_ARGS) {
    if (thread_index != 0) return;
    if (group.x == 0) {
        if (kPlain) {
            data[0] = 42;
        } else {
            set(words + 1, 42);
        }
        if (kRelease) release();
        set(words, 1);
    } else {
        const uint flag = get(words);
        if (kAcquire) acquire();
        out[0] = flag;
        if (flag == 1 || !kPlain) out[1] = kPlain ? uint(data[0]) : get(words + 1);
    }
}

QWISP_KERNEL(store_buffering)(WORDS, OUT QWISP_THREAD_ARGS) {
    if (thread_index != 0) return;
    set(words + group.x, 1);
    out[group.x] = get(words + 1 - group.x);
}

// The words end as 1 and 1 only if each threadgroup's first store comes after the other's second one.
QWISP_KERNEL(two_writes_each)(WORDS QWISP_THREAD_ARGS) {
    if (thread_index != 0) return;
    set(words + group.x, 1);
    set(words + 1 - group.x, 2);
}

QWISP_KERNEL(coherence)(WORDS, OUT QWISP_THREAD_ARGS) {
    if (thread_index != 0) return;
    if (group.x == 0) {
        for (uint i = 1; i < 5; i++) set(words, i);
    } else {
        out[0] = get(words);
        out[1] = get(words);
    }
}

// Group 0 writes, group 1 hands on that it has, group 2 reads: fences order the three.
QWISP_KERNEL(handed_on)(QWISP_USES(kAcquire) WORDS, DATA, OUT QWISP_THREAD_ARGS) {
    if (group.x == 0 && thread_index == 0) data[0] = 42;
    threadgroup_barrier(mem_flags::mem_device);
    const uint last = simdgroups * 32 - 1;
    if (group.x == 0 && thread_index == last) {
        release();
        atomic_fetch_add_explicit(words, 1u, memory_order_relaxed);
    }
    if (group.x == 1 && thread_index == 0 && get(words) == 1) {
        if (kAcquire) acquire();
        release();
        set(words + 1, 1);
    }
    if (group.x == 2 && thread_index == 0 && get(words + 1) == 1) {
        acquire();
        out[0] = data[0];
    }
}

// One thread stores for another one of its threadgroup, with a barrier of kFlags between them.
QWISP_KERNEL(within_group)(QWISP_USES(kPlain, kFlags) WORDS, DATA, OUT QWISP_THREAD_ARGS) {
    const uint last = simdgroups * 32 - 1;
    if (thread_index == 0) {
        if (kPlain) {
            data[group.x] = 42;
        } else {
            set(words + group.x, 42);
        }
    }
    threadgroup_barrier(static_cast<mem_flags>(uint(kFlags)));
    if (thread_index == last) out[group.x] = kPlain ? uint(data[group.x]) : get(words + group.x);
}

// No threadgroup ends before all have begun.
QWISP_KERNEL(all_at_once)(WORDS, OUT QWISP_THREAD_ARGS) {
    if (thread_index != 0) return;
    out[group.x] = atomic_fetch_add_explicit(words, 1u, memory_order_relaxed);
    while (get(words) < groups.x) {
    }
}

// The pattern of route_fused_rows_last, one thread a threadgroup: the last one to count itself in adds up what all
// have published, and puts words and count back to 0. out[0] = how many did so, out[1] = the sum.
QWISP_KERNEL(last_arriver)(QWISP_USES(kPlain, kAcquire) WORDS, OUT QWISP_THREAD_ARGS) {
    if (thread_index != 0) return;
    const QWISP_DEVICE(atomic_uint) count = words + groups.x;
    if (kPlain) {
        ((QWISP_DEVICE(uint))(words))[group.x] = 10 + group.x;
    } else {
        set(words + group.x, 10 + group.x);
    }
    if (atomic_fetch_add_explicit(count, 1u, memory_order_relaxed) + 1 != groups.x) return;
    set(count, 0);
    uint sum = 0;
    for (uint g = 0; g < groups.x; g++) {
        uint word = get(words + g);
        while (kAcquire && word == 0) word = get(words + g);  // with kAcquire: the check of route_fused_rows_last
        set(words + g, 0);
        sum += word;
    }
    out[0] = 1;
    out[1] = sum;
}

// Two halves of a word, a threadgroup each.
QWISP_KERNEL(neighbours)(OUT QWISP_THREAD_ARGS) {
    if (thread_index == 0) ((QWISP_DEVICE(ushort))(out))[group.x] = ushort(7 + group.x);
}

QWISP_KERNEL(plain_and_atomic)(WORDS, OUT QWISP_THREAD_ARGS) {
    if (thread_index != 0) return;
    if (group.x == 0) {
        set(words, 1);
    } else {
        out[0] = ((QWISP_DEVICE(uint))(words))[0];
    }
}

// Threadgroup arrays. Every thread reads what its left neighbour has written.
QWISP_KERNEL(pass_left)(QWISP_USES(kFlags) OUT QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(half, row, 1024);
    const uint threads = simdgroups * 32;
    row[thread_index] = half(thread_index % 512);
    threadgroup_barrier(static_cast<mem_flags>(uint(kFlags)));
    out[thread_index] = uint(float(row[(thread_index + threads - 1) % threads]));
}

// The same within simdgroups of `kFlags` lanes, with a barrier of the simdgroup.
QWISP_KERNEL(pass_lanes)(QWISP_USES(kFlags) OUT QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(uint, row, 1024);
    row[thread_index] = thread_index;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    const uint width = kFlags;
    out[thread_index] = row[thread_index / width * width + (thread_index + 1) % width];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    row[thread_index] = 0;
}

// Bytes of one element, a thread each.
QWISP_KERNEL(narrow)(OUT QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(uint, row, 256);
    ((QWISP_THREADGROUP(uchar))(row))[thread_index] = uchar(thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_index < simdgroups * 8) out[thread_index] = row[thread_index];
}

// Atomics may meet; a plain read needs a barrier.
QWISP_KERNEL(counted)(QWISP_USES(kFlags) OUT QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(atomic_uint, count, 1);
    if (thread_index == 0) atomic_store_explicit(count, 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
    threadgroup_barrier(static_cast<mem_flags>(uint(kFlags)));
    if (thread_index == 0) out[0] = ((QWISP_THREADGROUP(uint))(count))[0];
}
