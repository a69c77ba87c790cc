// CONTRACT section 2 with an expert's columns split over the simdgroups of a threadgroup: simdgroup s takes
// every eighth block of 256 columns, from block s on. A block's term needs no other block, and the terms are
// added in block order afterwards, so the bits are those of qmm8.h.
#pragma once
#include "qmm8.h"

// What one lane reads of one expert in one block. Loaded 8 bytes at a time.
struct SplitWeights {
    uint2 bytes;
    float scale, bias;
};
inline SplitWeights load_weights(QWISP_DEVICE(const uchar) weight, QWISP_DEVICE(const half) scales,
                                 QWISP_DEVICE(const half) biases, uint at) {
    SplitWeights loaded;
    loaded.bytes = *(QWISP_DEVICE(const uint2))(weight + at);
    loaded.scale = float(scales[at / kQuantGroup]);
    loaded.bias = float(biases[at / kQuantGroup]);
    return loaded;
}

// Eight columns of x. Loaded 16 bytes at a time.
struct SplitColumns {
    float value[8];
    float sum;
};
inline SplitColumns load_columns(QWISP_DEVICE(const half) x) {
    const uint4 words = *(QWISP_DEVICE(const uint4))(x);
    const uint pairs[4] = {words.x, words.y, words.z, words.w};
    SplitColumns loaded;
    loaded.sum = 0.0f;
    for (uint i = 0; i < 8; i++) {
        loaded.value[i] = float(as_type<half>(ushort((pairs[i / 2] >> (16 * (i % 2))) & 0xffffu)));
        loaded.sum += loaded.value[i];
    }
    return loaded;
}

inline float split_term(SplitColumns x, SplitWeights expert) {
    float accum = 0.0f;  // x * byte is exact, so that here, and only here, fma keeps the bits
    for (uint i = 0; i < 4; i++) accum = fma(x.value[i], byte_at(expert.bytes.x, i), accum);
    for (uint i = 0; i < 4; i++) accum = fma(x.value[4 + i], byte_at(expert.bytes.y, i), accum);
    return group_term(expert.scale, accum, x.sum, expert.bias);
}

// The logits of kSplitExperts experts from `first` on for `rows` rows of x, which share one reading of the
// weights: row m's in every lane of simdgroup m. `terms` holds rows * kSplitExperts * kSplitThreads floats. All
// threads call it. The weights of the first round are read before what the dispatch before this one wrote is
// awaited.
inline void qmm8_split(QWISP_DEVICE(const half) x, QWISP_DEVICE(const uchar) weight,
                       QWISP_DEVICE(const half) scales, QWISP_DEVICE(const half) biases, uint hidden,
                       uint rows, uint first, uint lane, uint simdgroup, QWISP_THREADGROUP(float) terms,
                       QWISP_THREAD(half) logits) {
    float result[kSplitExperts];
    for (uint r = 0; r < kSplitExperts; r++) result[r] = 0.0f;
    for (uint start = 0; start < hidden; start += kSplitColumns) {
        const uint column = start + 8 * (simdgroup * kSimdWidth + lane);
        const bool is_mine = column < hidden;
        SplitWeights experts[kSplitExperts];
        if (is_mine) {
            for (uint r = 0; r < kSplitExperts; r++) {
                experts[r] = load_weights(weight, scales, biases, (first + r) * hidden + column);
            }
        }
        if (start == 0) {
            QWISP_AWAIT_PREVIOUS();
        } else {
            threadgroup_barrier(mem_flags::mem_threadgroup);  // the terms of the last round have been added
        }
        if (is_mine) {
            for (uint m = 0; m < rows; m++) {
                const SplitColumns columns = load_columns(x + m * hidden + column);
                for (uint r = 0; r < kSplitExperts; r++) {
                    const uint expert = (m * kSplitExperts + r) * kSplitSimdgroups;
                    terms[(expert + simdgroup) * kSimdWidth + lane] = split_term(columns, experts[r]);
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (simdgroup < rows) {
            for (uint b = 0; b < kSplitSimdgroups; b++) {
                if (start + b * 8 * kSimdWidth >= hidden) break;
                for (uint r = 0; r < kSplitExperts; r++) {
                    const uint expert = (simdgroup * kSplitExperts + r) * kSplitSimdgroups;
                    result[r] += terms[(expert + b) * kSimdWidth + lane];
                }
            }
        }
    }
    if (simdgroup < rows) {
        for (uint r = 0; r < kSplitExperts; r++) logits[r] = half(simd_sum(result[r]));
    }
}
