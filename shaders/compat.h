// Address-space words and kernel signatures for every compiler that reads the shaders:
// Metal's own (and clang in its place, tests/metal/rules.py), the C++ compiler (the software device;
// cpp/metal_runtime/drivers/cpu/msl.h supplies the language) and NVRTC (cpp/metal_runtime/drivers/cuda/msl_cuda.h).
#pragma once

#if defined(__METAL_VERSION__)

#include <metal_stdlib>
using namespace metal;

#define QWISP_KERNEL(name) kernel void name
#define QWISP_KERNEL_OF(name, threads) [[kernel, max_total_threads_per_threadgroup(threads)]] void name
#define QWISP_USES(...)
#define QWISP_BUFFER(T, name, slot) device T *name [[buffer(slot)]]
#define QWISP_BUFFER_IF(T, name, slot, constant_) device T *name [[buffer(slot), function_constant(constant_)]]
#define QWISP_ARGS(T, name, slot) constant T &name [[buffer(slot)]]
#define QWISP_THREAD_ARGS                             \
    , uint3 group [[threadgroup_position_in_grid]],   \
        uint3 groups [[threadgroups_per_grid]],       \
        uint thread_index [[thread_index_in_threadgroup]], \
        uint lane [[thread_index_in_simdgroup]],      \
        uint simdgroup [[simdgroup_index_in_threadgroup]], \
        uint simdgroups [[simdgroups_per_threadgroup]]
#define QWISP_CONSTANT(T, name) constant T name [[function_constant(name##Index)]]
#define QWISP_DEVICE(T) device T *
#define QWISP_THREADGROUP(T) threadgroup T *
#define QWISP_THREAD(T) thread T *
#define QWISP_THREADGROUP_ARRAY(T, name, n) threadgroup T name[n]

#elif defined(__CUDACC_RTC__)

#include "msl_cuda.h"

#else

#include "msl.h"
using namespace qwisp::simt;

// The binder passes the built-ins of QWISP_THREAD_ARGS in this order.
#define QWISP_KERNEL(name) static void name
#define QWISP_KERNEL_OF(name, threads) static void name
#define QWISP_USES(...) [[maybe_unused]] Uses<__VA_ARGS__> uses,
#define QWISP_BUFFER(T, name, slot) BufferArg<T, #name, slot> name
#define QWISP_BUFFER_IF(T, name, slot, constant_) BufferArgIf<T, #name, slot, constant_##Index> name
#define QWISP_ARGS(T, name, slot) ConstantArg<T, #name, slot> name
#define QWISP_THREAD_ARGS                                                                           \
    , [[maybe_unused]] uint3 group, [[maybe_unused]] uint3 groups, [[maybe_unused]] uint thread_index, \
        [[maybe_unused]] uint lane, [[maybe_unused]] uint simdgroup, [[maybe_unused]] uint simdgroups
#define QWISP_CONSTANT(T, name) static constexpr FunctionConstant<T, #name, name##Index> name {}
#define QWISP_DEVICE(T) DevicePtr<T>
#define QWISP_THREADGROUP(T) ThreadgroupPtr<T>
#define QWISP_THREAD(T) T *
#define QWISP_THREADGROUP_ARRAY(T, name, n) ThreadgroupArray<T, n> name(#name)

#endif

#define QWISP_NEGATIVE_INFINITY as_type<float>(0xff800000u)

// Words that only CUDA gives a meaning. QWISP_LET_NEXT_START(), in a kernel's own body: the next dispatch may
// start, and this one may have started before the one before it ended. It then must pass
// QWISP_AWAIT_PREVIOUS() in all its threads before it writes, and before it reads anything but the buffers
// declared with QWISP_WEIGHTS.
#if !defined(__CUDACC_RTC__)
#define QWISP_WEIGHTS(T, name, slot) QWISP_BUFFER(T, name, slot)
#define QWISP_LET_NEXT_START() (void)0
#define QWISP_AWAIT_PREVIOUS() (void)0

inline float byte_at(uint word, uint i) { return float((word >> (8 * i)) & 0xffu); }
#endif
