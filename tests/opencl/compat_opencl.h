// The shaders as clang's C++ for OpenCL reads them: the nearest front end to Apple's that runs on Linux.
// Only declarations: the check compiles and never links, to have every address space verified.
#pragma once
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef uint uint2 __attribute__((ext_vector_type(2)));
typedef uint uint3 __attribute__((ext_vector_type(3)));
typedef uint uint4 __attribute__((ext_vector_type(4)));

#define QWISP_KERNEL(name) __kernel void name
#define QWISP_KERNEL_OF(name, threads) __kernel void name
#define QWISP_USES(...)
#define QWISP_BUFFER(T, name, slot) __global T *name
#define QWISP_BUFFER_IF(T, name, slot, constant_) __global T *name
#define QWISP_ARGS(T, name, slot) __constant T &name
#define QWISP_THREAD_ARGS \
    , uint3 group, uint3 groups, uint thread_index, uint lane, uint simdgroup, uint simdgroups
#define QWISP_CONSTANT(T, name) __constant T name = 1
#define QWISP_DEVICE(T) __global T *
#define QWISP_THREADGROUP(T) __local T *
#define QWISP_THREAD(T) __private T *
#define QWISP_THREADGROUP_ARRAY(T, name, n) __local T name[n]

template <class To, class From>
To as_type(From value) {
    static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
    return __builtin_astype(value, To);
}
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
void threadgroup_barrier(mem_flags flags);
void simdgroup_barrier(mem_flags flags);
uint atomic_load_explicit(__global const atomic_uint *object, memory_order order);
void atomic_store_explicit(__global atomic_uint *object, uint desired, memory_order order);
uint atomic_fetch_add_explicit(__global atomic_uint *object, uint operand, memory_order order);
namespace precise {
float exp(float x);
}
float fma(float a, float b, float c);
float fmax(float a, float b);
float simd_sum(float value);
uint simd_max(uint value);
bool simd_any(bool value);
float simd_shuffle(float value, ushort lane);
uint simd_shuffle(uint value, ushort lane);
half simd_shuffle(half value, ushort lane);
float simd_shuffle_xor(float value, ushort mask);
uint simd_shuffle_xor(uint value, ushort mask);
uint reverse_bits(uint value);
