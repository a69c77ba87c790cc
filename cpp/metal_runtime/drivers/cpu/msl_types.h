// MSL's scalar and vector types and its mathematics, as C++.
#pragma once
#include <cmath>  // INFINITY, NAN
#include <cstdint>
#include <cstring>
#if defined(__F16C__)
#include <immintrin.h>
#endif

// Every image defines QWISP_IMAGE, a name of its own: images compiled with different flags must not share
// inline functions, which the linker would merge.
#if !defined(QWISP_IMAGE)
#define QWISP_IMAGE image
#endif
#define QWISP_SIMT_BEGIN    \
    namespace qwisp::simt { \
    inline namespace QWISP_IMAGE {
#define QWISP_SIMT_END \
    }                  \
    }

QWISP_SIMT_BEGIN

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;

template <class To, class From>
inline To as_type(From value) {
    static_assert(sizeof(To) == sizeof(From));
    return __builtin_bit_cast(To, value);
}

inline float half_bits_to_float(uint16_t bits) {
#if defined(__F16C__)
    return _cvtsh_ss(bits);
#else
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    if (magnitude >= 0x0f800000) return as_type<float>(sign | 0x7f800000 | magnitude);  // infinity, NaN
    // The exponent is 112 too small; the product is exact, subnormal halves included.
    return as_type<float>(sign | as_type<uint32_t>(as_type<float>(magnitude) * 0x1p112f));
#endif
}

inline uint16_t float_to_half_bits(float value) {
#if defined(__F16C__)
    return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
#else
    const uint32_t bits = as_type<uint32_t>(value), magnitude = bits & 0x7fffffff;
    const uint32_t sign = bits >> 16 & 0x8000;
    uint32_t half;
    if (magnitude > 0x7f800000) {
        half = 0x7e00 | (magnitude >> 13 & 0x1ff);
    } else if (magnitude >= 0x477ff000) {  // 65520 and more
        half = 0x7c00;
    } else if (magnitude < 0x38800000) {  // below 2^-14: the addition rounds to a multiple of 2^-24
        half = as_type<uint32_t>(as_type<float>(magnitude) + 0.5f) - 0x3f000000;
    } else {
        half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    }
    return static_cast<uint16_t>(sign | half);
#endif
}

// IEEE binary16. Each operation is one f32 operation rounded once more, which equals rounding once.
struct half {
    uint16_t bits;

    half() = default;
    explicit half(float value) : bits(float_to_half_bits(value)) {}
    operator float() const { return half_bits_to_float(bits); }

    friend half operator+(half a, half b) { return half(float(a) + float(b)); }
    friend half operator-(half a, half b) { return half(float(a) - float(b)); }
    friend half operator*(half a, half b) { return half(float(a) * float(b)); }
    friend half operator/(half a, half b) { return half(float(a) / float(b)); }
    friend half operator-(half a) { return as_type<half>(static_cast<uint16_t>(a.bits ^ 0x8000)); }
    half &operator+=(half other) { return *this = *this + other; }
    half &operator-=(half other) { return *this = *this - other; }
    half &operator*=(half other) { return *this = *this * other; }
    half &operator/=(half other) { return *this = *this / other; }
};
static_assert(sizeof(half) == 2);

template <class T>
struct alignas(2 * sizeof(T)) Vec2 {
    T x, y;
    T operator[](uint i) const { return i == 0 ? x : y; }
};
template <class T>
struct alignas(4 * sizeof(T)) Vec3 {
    T x, y, z;
    T operator[](uint i) const { return i == 0 ? x : i == 1 ? y : z; }
};
template <class T>
struct alignas(4 * sizeof(T)) Vec4 {
    T x, y, z, w;
    T operator[](uint i) const { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
};
using uchar4 = Vec4<uchar>;
using half2 = Vec2<half>;
using half4 = Vec4<half>;
using ushort2 = Vec2<ushort>;
using ushort4 = Vec4<ushort>;
using uint2 = Vec2<uint>;
using uint3 = Vec3<uint>;
using uint4 = Vec4<uint>;
using int2 = Vec2<int>;
using int4 = Vec4<int>;
using float2 = Vec2<float>;
using float4 = Vec4<float>;

inline bool isnan(float x) { return x != x; }
inline bool isinf(float x) { return x == INFINITY || x == -INFINITY; }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// A NaN loses to a number.
inline float fmax(float a, float b) { return a >= b || isnan(b) ? a : b; }
inline float fmin(float a, float b) { return a <= b || isnan(b) ? a : b; }
inline float max(float a, float b) { return fmax(a, b); }
inline float min(float a, float b) { return fmin(a, b); }
inline uint max(uint a, uint b) { return a > b ? a : b; }
inline uint min(uint a, uint b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline uint popcount(uint x) { return static_cast<uint>(__builtin_popcount(x)); }
inline uint clz(uint x) { return x ? static_cast<uint>(__builtin_clz(x)) : 32; }
inline uint ctz(uint x) { return x ? static_cast<uint>(__builtin_ctz(x)) : 32; }
inline uint reverse_bits(uint x) {
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}

namespace precise {
// The f32 nearest to the exact value, as CONTRACT section 3 asks.
inline float exp(float x) { return static_cast<float>(__builtin_exp(static_cast<double>(x))); }
}  // namespace precise

QWISP_SIMT_END
