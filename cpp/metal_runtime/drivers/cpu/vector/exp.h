// precise::exp of the contract for x <= 0: the f32 nearest to the exact value, the same bits on each target.
#pragma once
#include "metal_runtime/drivers/cpu/vector/simd.h"

namespace qwisp::metal::vector::QWISP_VECTOR_TARGET {

// exp(x) = 2^n exp(r), |r| <= ln 2 / 2, in f64: n rounded by adding 1.5 * 2^52, ln 2 in two parts (the
// first has 20 zero bits, so that n times it is exact), exp(r) by its Taylor series up to r^13. No fused
// operation, so that processors without one agree. Every f32 in [-104, 0] (1.12e9) was compared with
// (float)exp((double)x) of glibc under AVX-512, AVX2 and portable: no difference; cpp/tests/test_vector.cpp
// takes a sample. Below -104 the answer is 0. NaN gives NaN.
QWISP_ALWAYS_INLINE F32Half exponential(F32Half xs) {
    constexpr double kRound = 0x1.8p52;
    constexpr double kCoefficients[] = {
        1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
        1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5};
    const F64 given = __builtin_convertvector(xs, F64);
    const F64 x = given < -104.0 ? F64{} - 104.0 : given;
    const F64 shifted = x * 0x1.71547652b82fep+0 + kRound;
    const F64 n = shifted - kRound;
    F64 r = x - n * 0x1.62e42fee00000p-1;
    r = r - n * 0x1.a39ef35793c76p-33;
    F64 q = F64{} + 1.0 / 6227020800.0;
    QWISP_UNROLL
    for (const double coefficient : kCoefficients) q = q * r + coefficient;
    q = q * (r * r) + r;
    q = q + 1.0;
    q = (F64)((I64)q + ((I64)shifted << 52));
    q = given < -104.0 ? F64{} : q;  // before the conversion, which is slow where it underflows
    q = given != given ? given : q;
    return __builtin_convertvector(q, F32Half);
}

static void exponentials(const float *x, size_t count, float *out) {
    for (size_t i = 0; i < count; i += kWidth / 2) store(out + i, exponential(load<F32Half>(x + i)));
}

}  // namespace qwisp::metal::vector::QWISP_VECTOR_TARGET
