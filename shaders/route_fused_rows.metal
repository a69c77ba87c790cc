// CONTRACT section 7: x -> experts and scores in one dispatch, the bits of the pair. Two shapes.
#if !defined(QWISP_CONTRACT_COMPILER)
#pragma METAL fp contract(off)  // safe math alone does not stop contraction (docs/apple.md)
#endif
#pragma METAL fp math_mode(safe)
#include "qmm8.h"
#include "route_constants.h"
#include "topk_simd.h"

// One threadgroup a row: the logits stay in threadgroup memory. Any number of whole simdgroups.
QWISP_KERNEL(route_fused_rows_single)(QWISP_BUFFER(const half, x, kFusedX),
                                      QWISP_BUFFER(const uchar, weight, kFusedWeight),
                                      QWISP_BUFFER(const half, scales, kFusedScales),
                                      QWISP_BUFFER(const half, biases, kFusedBiases),
                                      QWISP_BUFFER(int, inds, kFusedInds),
                                      QWISP_BUFFER(half, scores, kFusedScoresOut),
                                      QWISP_ARGS(FusedArgs, args, kFusedArgs),
                                      QWISP_BUFFER_IF(half, logits, kFusedLogits, kWriteLogits),
                                      QWISP_BUFFER_IF(const int, resident, kFusedResident, kUseBias)
                                          QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(half, row_logits, kMaxExperts);
    const uint row = group.x;
    for (uint first = simdgroup * kExpertsPerSimd; first < kExperts; first += simdgroups * kExpertsPerSimd) {
        float logit[kExpertsPerSimd];
        qmm8_simdgroup(x + row * kHidden, weight, scales, biases, kHidden, first, lane, logit);
        if (lane == 0) {
            for (uint r = 0; r < kExpertsPerSimd; r++) {
                row_logits[first + r] = half(logit[r]);
                if (kWriteLogits) logits[row * kExperts + first + r] = half(logit[r]);
            }
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup != 0) return;

    half logit[QWISP_SLOTS];
    float boost[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const uint slot = lane + kSimdWidth * j;
        logit[j] = half(QWISP_NEGATIVE_INFINITY);
        boost[j] = 0.0f;
        if (slot < kExperts) {
            logit[j] = row_logits[slot];
            if (kUseBias) boost[j] = resident[slot] != 0 ? args.eps : 0.0f;
        }
    }
    route_row_simd(logit, boost, kUseBias, kExperts, kTopK, lane, inds + row * kTopK, scores + row * kTopK);
}

// A published logit: its bits under a tag, so that 0 means "not here yet" whatever the logit is.
#define QWISP_WORD_TAG 0x10000u

// The pair's own grid: each threadgroup publishes its logits and counts itself in; the one that arrives
// last finishes the row. Nobody waits for another threadgroup. Only relaxed atomics: the value and its
// tag share a word, so a word that lags behind the count is read again. The finisher puts the words and
// the count back to 0, so that the next launch needs no clearing.
QWISP_KERNEL(route_fused_rows_last)(QWISP_BUFFER(const half, x, kFusedX),
                                    QWISP_BUFFER(const uchar, weight, kFusedWeight),
                                    QWISP_BUFFER(const half, scales, kFusedScales),
                                    QWISP_BUFFER(const half, biases, kFusedBiases),
                                    QWISP_BUFFER(int, inds, kFusedInds),
                                    QWISP_BUFFER(half, scores, kFusedScoresOut),
                                    QWISP_ARGS(FusedArgs, args, kFusedArgs),
                                    QWISP_BUFFER_IF(half, logits, kFusedLogits, kWriteLogits),
                                    QWISP_BUFFER_IF(const int, resident, kFusedResident, kUseBias),
                                    QWISP_BUFFER(atomic_uint, arrivals, kFusedArrivals),
                                    QWISP_BUFFER(atomic_uint, words, kFusedWords) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(uint, arrived, 1);
    const uint row = group.x;
    const uint first = group.y * kExpertsPerGroup + simdgroup * kExpertsPerSimd;
    float sums[kExpertsPerSimd];
    qmm8_simdgroup(x + row * kHidden, weight, scales, biases, kHidden, first, lane, sums);
    if (lane == 0) {
        for (uint r = 0; r < kExpertsPerSimd; r++) {
            const half logit = half(sums[r]);
            const uint at = row * kExperts + first + r;
            atomic_store_explicit(words + at, QWISP_WORD_TAG | as_type<ushort>(logit), memory_order_relaxed);
            if (kWriteLogits) logits[at] = logit;
        }
    }
    threadgroup_barrier(mem_flags::mem_device);  // every word of this threadgroup before its arrival
    if (thread_index == 0) arrived[0] = atomic_fetch_add_explicit(arrivals + row, 1u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (arrived[0] + 1 != groups.y || simdgroup != 0) return;

    if (lane == 0) atomic_store_explicit(arrivals + row, 0u, memory_order_relaxed);
    half logit[QWISP_SLOTS];
    float boost[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const uint slot = lane + kSimdWidth * j;
        logit[j] = half(QWISP_NEGATIVE_INFINITY);
        boost[j] = 0.0f;
        if (slot < kExperts) {
            uint word = 0;
            while (word == 0) word = atomic_load_explicit(words + row * kExperts + slot, memory_order_relaxed);
            atomic_store_explicit(words + row * kExperts + slot, 0u, memory_order_relaxed);
            logit[j] = as_type<half>(ushort(word & 0xffffu));
            if (kUseBias) boost[j] = resident[slot] != 0 ? args.eps : 0.0f;
        }
    }
    route_row_simd(logit, boost, kUseBias, kExperts, kTopK, lane, inds + row * kTopK, scores + row * kTopK);
}
