// Vectors of the target this file is compiled for, in GCC's vector extensions: kWidth lanes of 32 bits.
// Everything lives in the target's own namespace, because each target's object file has other flags: a
// function shared with the rest of the program could be linked from here and not run on its processor.
#pragma once
#include <cstdint>
#include <cstring>

#include "metal_runtime/drivers/cpu/vector/target.h"
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define QWISP_ALWAYS_INLINE static inline __attribute__((always_inline))
#define QWISP_UNROLL _Pragma("GCC unroll 32")

namespace qwisp::metal::vector::QWISP_VECTOR_TARGET {

#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX2__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif

using F32 = float __attribute__((vector_size(4 * kWidth)));
using I32 = int32_t __attribute__((vector_size(4 * kWidth)));
using U32 = uint32_t __attribute__((vector_size(4 * kWidth)));
using F64 = double __attribute__((vector_size(4 * kWidth)));  // half as many lanes
using I64 = int64_t __attribute__((vector_size(4 * kWidth)));
using F32Half = float __attribute__((vector_size(2 * kWidth)));

template <typename V>
QWISP_ALWAYS_INLINE V load(const void *from) {
    V v;
    memcpy(&v, from, sizeof v);
    return v;
}
template <typename V>
QWISP_ALWAYS_INLINE void store(void *to, V v) {
    memcpy(to, &v, sizeof v);
}

QWISP_ALWAYS_INLINE F32 splat(float value) {
#if defined(__AVX512F__)
    return (F32)_mm512_set1_ps(value);
#elif defined(__AVX2__)
    return (F32)_mm256_set1_ps(value);
#else
    return F32{value, value, value, value};
#endif
}
QWISP_ALWAYS_INLINE I32 splat(int32_t value) { return value - I32{}; }

QWISP_ALWAYS_INLINE I32 max(I32 a, I32 b) {
#if defined(__AVX512F__)
    return (I32)_mm512_max_epi32((__m512i)a, (__m512i)b);
#else
    return a > b ? a : b;
#endif
}
QWISP_ALWAYS_INLINE F32 max(F32 a, F32 b) {
#if defined(__AVX512F__)
    return (F32)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return a > b ? a : b;
#endif
}

// Of the elements of a and then b, those at the even (kOdd 0) or the odd (1) places.
template <int kOdd>
QWISP_ALWAYS_INLINE F32 every_other(F32 a, F32 b) {
#if defined(__AVX512F__)
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return (F32)_mm512_permutex2var_ps((__m512)a, _mm512_add_epi32(even, _mm512_set1_epi32(kOdd)), (__m512)b);
#elif defined(__AVX2__)
    const __m256d halves = (__m256d)_mm256_shuffle_ps((__m256)a, (__m256)b, kOdd ? 0xdd : 0x88);
    return (F32)_mm256_permute4x64_pd(halves, 0xd8);
#else
    return F32{a[kOdd], a[kOdd + 2], b[kOdd], b[kOdd + 2]};
#endif
}

// a + x w where x w is exact, so that fused or not gives the same bits.
QWISP_ALWAYS_INLINE F32 add_exact_product(F32 x, F32 w, F32 a) {
#if defined(__AVX512F__)
    return (F32)_mm512_fmadd_ps((__m512)x, (__m512)w, (__m512)a);
#elif defined(__AVX2__)
    return (F32)_mm256_fmadd_ps((__m256)x, (__m256)w, (__m256)a);
#elif defined(__aarch64__)
    return (F32)vfmaq_f32((float32x4_t)a, (float32x4_t)x, (float32x4_t)w);
#else
    return a + x * w;
#endif
}

// f16, round to nearest even. A NaN stays one.
#if defined(__AVX512F__)
QWISP_ALWAYS_INLINE F32 load_halves(const uint16_t *from) {
    return (F32)_mm512_cvtph_ps(load<__m256i>(from));
}
QWISP_ALWAYS_INLINE void store_halves(uint16_t *to, F32 v) { store(to, _mm512_cvtps_ph((__m512)v, 0)); }
#elif defined(__AVX2__)
QWISP_ALWAYS_INLINE F32 load_halves(const uint16_t *from) {
    return (F32)_mm256_cvtph_ps(load<__m128i>(from));
}
QWISP_ALWAYS_INLINE void store_halves(uint16_t *to, F32 v) { store(to, _mm256_cvtps_ph((__m256)v, 0)); }
#elif defined(__aarch64__)
QWISP_ALWAYS_INLINE F32 load_halves(const uint16_t *from) {
    return (F32)vcvt_f32_f16(load<float16x4_t>(from));
}
QWISP_ALWAYS_INLINE void store_halves(uint16_t *to, F32 v) { store(to, vcvt_f16_f32((float32x4_t)v)); }
#else
QWISP_ALWAYS_INLINE F32 load_halves(const uint16_t *from) {
    const U32 h = {from[0], from[1], from[2], from[3]};
    // The exponent moves by multiplying, which also normalises the subnormals.
    const U32 magnitude = (U32)((F32)((h & 0x7fffu) << 13) * splat(0x1p112f));
    const U32 special = (U32)((h & 0x7c00u) == 0x7c00u) & 0x7f800000u;
    return (F32)(magnitude | special | ((h & 0x8000u) << 16));
}
QWISP_ALWAYS_INLINE void store_halves(uint16_t *to, F32 v) {
    const U32 bits = (U32)v & 0x7fffffffu;
    const U32 subnormal = (U32)((F32)bits + splat(0.5f)) - 0x3f000000u;  // the addition rounds
    const U32 normal = (bits + 0xc8000fffu + ((bits >> 13) & 1u)) >> 13;
    U32 half = bits < 0x38800000u ? subnormal : normal;
    half = bits >= 0x477ff000u ? U32{} + 0x7c00u : half;
    half = bits > 0x7f800000u ? U32{} + 0x7e00u : half;
    half |= ((U32)v >> 16) & 0x8000u;
    QWISP_UNROLL
    for (int i = 0; i < 4; i++) to[i] = static_cast<uint16_t>(half[i]);
}
#endif

#if defined(__F16C__)
QWISP_ALWAYS_INLINE float to_float(uint16_t half) { return _cvtsh_ss(half); }
QWISP_ALWAYS_INLINE uint16_t to_half(float value) { return _cvtss_sh(value, 0); }
#else
QWISP_ALWAYS_INLINE float to_float(uint16_t half) {
    const uint16_t halves[kWidth] = {half};
    return load_halves(halves)[0];
}
QWISP_ALWAYS_INLINE uint16_t to_half(float value) {
    uint16_t halves[kWidth];
    store_halves(halves, splat(value));
    return halves[0];
}
#endif

QWISP_ALWAYS_INLINE int32_t largest(I32 v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_epi32((__m512i)v);
#else
    int32_t most = v[0];
    QWISP_UNROLL
    for (int i = 1; i < kWidth; i++) most = v[i] > most ? v[i] : most;
    return most;
#endif
}

}  // namespace qwisp::metal::vector::QWISP_VECTOR_TARGET
