// CONTRACT section 2: the 8-bit gate matvec of one simdgroup, four experts at a time.
#pragma once
#include "compat.h"
#include "route_types.h"

// What one lane's eight columns add. A compiler that contracts may fuse either product, and not the same one in
// every kernel; clang's front end fuses the first, so that is what all kernels do.
inline float group_term(float scale, float accum, float sum, float bias) {
#if defined(QWISP_CONTRACT_COMPILER)
    return fma(scale, accum, sum * bias);
#else
    return scale * accum + sum * bias;
#endif
}

// `logits` receives simd_sum of the experts first .. first + 3, in every lane. All lanes call it.
inline void qmm8_simdgroup(QWISP_DEVICE(const half) x, QWISP_DEVICE(const uchar) weight,
                           QWISP_DEVICE(const half) scales, QWISP_DEVICE(const half) biases, uint hidden,
                           uint first, uint lane, QWISP_THREAD(float) logits) {
    float result[kExpertsPerSimd];
    for (uint r = 0; r < kExpertsPerSimd; r++) result[r] = 0.0f;
    for (uint block = 0; block < hidden; block += 8 * kSimdWidth) {
        const uint column = block + 8 * lane;
        float xs[8];
        float sum = 0.0f;
        for (uint i = 0; i < 8; i++) {
            xs[i] = float(x[column + i]);
            sum += xs[i];
        }
        for (uint r = 0; r < kExpertsPerSimd; r++) {
            const uint at = (first + r) * hidden + column;
            float accum = 0.0f;
            for (uint i = 0; i < 8; i++) accum += xs[i] * float(weight[at + i]);
            const uint pair = at / kQuantGroup;  // hidden is a multiple of the group
            result[r] += group_term(float(scales[pair]), accum, sum, float(biases[pair]));
        }
    }
    for (uint r = 0; r < kExpertsPerSimd; r++) logits[r] = simd_sum(result[r]);
}
