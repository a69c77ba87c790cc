// MSL as NVRTC's CUDA C++ reads it: everything that shaders/compat.h expands its words to. It is embedded as
// text and compiled with --device-as-default-execution-space, --fmad=false and these macros:
//     QWISP_ENTRY_<kernel>   extern "C" __global__ for the one kernel that is wanted, static for the others
//     QWISP_VALUE_<constant> the value of a function constant
//     QWISP_DEPENDENT        1: launched while the kernel before it still runs (griddepcontrol)
#pragma once

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using uint32_t = unsigned int;

template <class To, class From>
__forceinline__ To as_type(From value) {
    static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
    return __builtin_bit_cast(To, value);
}

// IEEE binary16. One f32 operation rounded once more equals rounding once.
struct half {
    ushort bits;

    half() = default;
    __forceinline__ explicit half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
    __forceinline__ operator float() const {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
};
__forceinline__ half operator+(half a, half b) {
    half sum;
    asm("add.rn.f16 %0, %1, %2;" : "=h"(sum.bits) : "h"(a.bits), "h"(b.bits));
    return sum;
}
__forceinline__ half operator-(half a, half b) { return half(float(a) - float(b)); }
__forceinline__ half operator*(half a, half b) { return half(float(a) * float(b)); }
__forceinline__ half operator/(half a, half b) { return half(__fdiv_rn(float(a), float(b))); }

// Kernels, arguments and what a thread knows of itself.
#define QWISP_KERNEL(name) QWISP_ENTRY_##name void name
#define QWISP_KERNEL_OF(name, threads) QWISP_ENTRY_##name void name
#define QWISP_USES(...)
#define QWISP_BUFFER(T, name, slot) T *name
#define QWISP_BUFFER_IF(T, name, slot, constant_) T *name
#define QWISP_WEIGHTS(T, name, slot) T *name
#define QWISP_ARGS(T, name, slot) const T name
#define QWISP_THREAD_ARGS
#define QWISP_CONSTANT(T, name) static constexpr T name = QWISP_VALUE_##name
#define QWISP_DEVICE(T) T *
#define QWISP_THREADGROUP(T) T *
#define QWISP_THREAD(T) T *
#define QWISP_THREADGROUP_ARRAY(T, name, n) __shared__ T name[n]

#define QWISP_BUILT_IN(Name, value)                             \
    struct Name {                                               \
        __forceinline__ operator uint() const { return value; } \
    };
namespace built_in {
QWISP_BUILT_IN(GroupX, blockIdx.x)
QWISP_BUILT_IN(GroupY, blockIdx.y)
QWISP_BUILT_IN(GroupZ, blockIdx.z)
QWISP_BUILT_IN(GroupsX, gridDim.x)
QWISP_BUILT_IN(GroupsY, gridDim.y)
QWISP_BUILT_IN(GroupsZ, gridDim.z)
QWISP_BUILT_IN(ThreadIndex, threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))
QWISP_BUILT_IN(Lane, uint(ThreadIndex()) & 31u)
QWISP_BUILT_IN(Simdgroup, uint(ThreadIndex()) >> 5)
QWISP_BUILT_IN(Simdgroups, (blockDim.x * blockDim.y * blockDim.z + 31u) >> 5)
struct Group {
    GroupX x;
    GroupY y;
    GroupZ z;
};
struct Groups {
    GroupsX x;
    GroupsY y;
    GroupsZ z;
};
}  // namespace built_in
static constexpr built_in::Group group{};
static constexpr built_in::Groups groups{};
static constexpr built_in::ThreadIndex thread_index{};
static constexpr built_in::Lane lane{};
static constexpr built_in::Simdgroup simdgroup{};
static constexpr built_in::Simdgroups simdgroups{};

// Programmatic dependent launch: the next kernel may start from here on, and may read what kernels wrote
// from there on.
#if QWISP_DEPENDENT
#define QWISP_LET_NEXT_START() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define QWISP_AWAIT_PREVIOUS() asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define QWISP_LET_NEXT_START() (void)0
#define QWISP_AWAIT_PREVIOUS() (void)0
#endif

// Barriers and simdgroups.
enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
__forceinline__ void threadgroup_barrier(mem_flags) { __syncthreads(); }
__forceinline__ void simdgroup_barrier(mem_flags) { __syncwarp(); }

static constexpr uint kEveryLane = 0xffffffffu;
__forceinline__ float simd_shuffle_xor(float value, uint mask) {
    return __shfl_xor_sync(kEveryLane, value, mask);
}
__forceinline__ uint simd_shuffle_xor(uint value, uint mask) {
    return __shfl_xor_sync(kEveryLane, value, mask);
}
__forceinline__ float simd_shuffle(float value, uint from) { return __shfl_sync(kEveryLane, value, from); }
__forceinline__ uint simd_shuffle(uint value, uint from) { return __shfl_sync(kEveryLane, value, from); }
__forceinline__ half simd_shuffle(half value, uint from) {
    return as_type<half>(ushort(simd_shuffle(uint(value.bits), from)));
}
// The order of the contract: 16, 8, 4, 2, 1.
__forceinline__ float simd_sum(float value) {
#pragma unroll
    for (uint mask = 16; mask > 0; mask /= 2) value = value + simd_shuffle_xor(value, mask);
    return value;
}
__forceinline__ uint simd_max(uint value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kEveryLane, value);
#else
#pragma unroll
    for (uint mask = 16; mask > 0; mask /= 2) value = max(value, simd_shuffle_xor(value, mask));
    return value;
#endif
}
__forceinline__ bool simd_any(bool value) { return __any_sync(kEveryLane, value) != 0; }

// Atomics: relaxed, as all of MSL's, at the scope of the device.
struct atomic_uint {
    uint value;
};
enum memory_order { memory_order_relaxed };
__forceinline__ uint atomic_load_explicit(const atomic_uint *object, memory_order) {
    uint value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(object) : "memory");
    return value;
}
__forceinline__ void atomic_store_explicit(atomic_uint *object, uint value, memory_order) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(object), "r"(value) : "memory");
}
__forceinline__ uint atomic_fetch_add_explicit(atomic_uint *object, uint operand, memory_order) {
    uint value;
    asm volatile("atom.add.relaxed.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(value)
                 : "l"(object), "r"(operand)
                 : "memory");
    return value;
}

// Mathematics.
__forceinline__ uint reverse_bits(uint value) { return __brev(value); }
__forceinline__ float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// 2^23 + byte, put together and subtracted: two operations of the full rate, where a conversion has a
// quarter.
__forceinline__ float byte_at(uint word, uint i) {
    return as_type<float>(__byte_perm(word, 0x4b000000u, 0x7440u | i)) - 8388608.0f;
}

namespace precise {
// The f32 nearest to the exact value, without a branch: x = n ln 2 + r, |r| <= ln 2 / 2, and the Taylor
// polynomial of degree 12 for exp(r), all in f64. Equal to (float)exp((double)x) for every x (tests/
// test_cuda_exp.py holds the same operations against the C library on all 2^32 floats).
__forceinline__ float exp(float x) {
    const float low = x < -110.0f ? -110.0f : x;  // both bounds are past where the f32 is 0 or infinite
    const double d = low > 90.0f ? 90.0f : low;   // a NaN passes both
    const double shift = 6755399441055744.0;      // 1.5 * 2^52: the sum's low bits are the rounded integer
    const double shifted = __fma_rn(d, 1.4426950408889634, shift);
    const double n = __dadd_rn(shifted, -shift);
    const double r = __fma_rn(n, -1.90821492927058770e-10, __fma_rn(n, -6.93147180369123816490e-01, d));
    const double r2 = __dmul_rn(r, r), r4 = __dmul_rn(r2, r2), r8 = __dmul_rn(r4, r4);
    const double a = __fma_rn(__fma_rn(r, 1.0 / 6, 0.5), r2, __dadd_rn(1.0, r));
    const double b = __fma_rn(__fma_rn(r, 1.0 / 5040, 1.0 / 720), r2, __fma_rn(r, 1.0 / 120, 1.0 / 24));
    const double c =
        __fma_rn(__fma_rn(r, 1.0 / 39916800, 1.0 / 3628800), r2, __fma_rn(r, 1.0 / 362880, 1.0 / 40320));
    const double e = __fma_rn(__fma_rn(r4, 1.0 / 479001600, c), r8, __fma_rn(b, r4, a));
    return float(__hiloint2double(__double2hiint(e) + (__double2loint(shifted) << 20), __double2loint(e)));
}
}  // namespace precise
