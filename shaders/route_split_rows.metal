// Kernels for GPUs that hide little latency: the pair and the last-arriver route with eight simdgroups a
// threadgroup, two experts each, wide loads, and the tail of topk_wide.h. Bits equal to the incumbent pair.
#if !defined(QWISP_CONTRACT_COMPILER)
#pragma METAL fp contract(off)  // safe math alone does not stop contraction (docs/apple.md)
#endif
#pragma METAL fp math_mode(safe)
#include "qmm8_split.h"
#include "route_constants.h"
#include "topk_wide.h"

// x -> logits. Grid (rows / tile rows, experts / 2).
QWISP_KERNEL_OF(qmm8_rows_split, kSplitThreads)
(QWISP_USES(kHidden, kExperts, kTileRows) QWISP_BUFFER(const half, x, kQmmX),
 QWISP_WEIGHTS(const uchar, weight, kQmmWeight), QWISP_WEIGHTS(const half, scales, kQmmScales),
 QWISP_WEIGHTS(const half, biases, kQmmBiases), QWISP_BUFFER(half, logits, kQmmLogits) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(float, terms, kMaxTileRows *kSplitExperts *kSplitThreads);
    QWISP_LET_NEXT_START();
    const uint row = group.x * kTileRows, first = group.y * kSplitExperts;
    half logit[kSplitExperts];
    qmm8_split(x + row * kHidden, weight, scales, biases, kHidden, kTileRows, first, lane, simdgroup, terms,
               logit);
    if (simdgroup < kTileRows && lane == 0) {
        const uint at = (row + simdgroup) * kExperts + first;
        for (uint r = 0; r < kSplitExperts; r++) logits[at + r] = logit[r];
    }
}

// logits -> experts and scores, with or without the bias. Grid (rows).
QWISP_KERNEL_OF(route_top8_rows_wide, kSplitThreads)
(QWISP_USES(kUseBias, kExperts, kTopK) QWISP_BUFFER(const half, logits, kTopkLogits),
 QWISP_BUFFER(int, inds, kTopkInds), QWISP_BUFFER(half, scores, kTopkScores),
 QWISP_ARGS(TopkArgs, args, kTopkArgs),
 QWISP_BUFFER_IF(const int, resident, kTopkResident, kUseBias) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(float, exponential, kRouteThreads + 1);
    QWISP_THREADGROUP_ARRAY(half, row_logits, kRouteThreads);
    QWISP_LET_NEXT_START();
    QWISP_AWAIT_PREVIOUS();
    const uint t = thread_index;
    row_logits[t] = t < kExperts ? half(logits[group.x * kExperts + t]) : half(QWISP_NEGATIVE_INFINITY);
    float boost[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const uint slot = lane + kSimdWidth * j;
        boost[j] = 0.0f;
        if (kUseBias && slot < kExperts) boost[j] = resident[slot] != 0 ? args.eps : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    route_row_wide(row_logits, boost, kUseBias, kExperts, kTopK, lane, simdgroup, exponential,
                   inds + group.x * kTopK, scores + group.x * kTopK);
}

// Two published logits, inverted: 0 means "not here yet" whatever they are, since a NaN is published as 0x7e00.
#define QWISP_WORDS (kMaxExperts / kSplitExperts / kSimdWidth)
inline uint publishable(half logit) { return is_nan(logit) ? 0x7e00u : uint(as_type<ushort>(logit)); }

// As route_fused_rows_last. One thread publishes both logits in one word and then counts its threadgroup in,
// so that no barrier is needed between the two. Every threadgroup reads the row's words right after its count:
// the one that turns out to be the last has most of them by then. Grid (rows, experts / 2).
QWISP_KERNEL_OF(route_fused_rows_split, kSplitThreads)
(QWISP_BUFFER(const half, x, kFusedX), QWISP_WEIGHTS(const uchar, weight, kFusedWeight),
 QWISP_WEIGHTS(const half, scales, kFusedScales), QWISP_WEIGHTS(const half, biases, kFusedBiases),
 QWISP_BUFFER(int, inds, kFusedInds), QWISP_BUFFER(half, scores, kFusedScoresOut),
 QWISP_ARGS(FusedArgs, args, kFusedArgs), QWISP_BUFFER_IF(half, logits, kFusedLogits, kWriteLogits),
 QWISP_BUFFER_IF(const int, resident, kFusedResident, kUseBias),
 QWISP_BUFFER(atomic_uint, arrivals, kFusedArrivals),
 QWISP_BUFFER(atomic_uint, words, kFusedWords) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(float, terms, kSplitExperts *kSplitThreads);
    QWISP_THREADGROUP_ARRAY(float, exponential, kRouteThreads + 1);
    QWISP_THREADGROUP_ARRAY(half, row_logits, kRouteThreads);
    QWISP_THREADGROUP_ARRAY(uint, arrived, 1);
    QWISP_LET_NEXT_START();
    const uint row = group.x, first = group.y * kSplitExperts;
    const uint row_words = kExperts / kSplitExperts, row_start = row * row_words;
    half pair[kSplitExperts];
    qmm8_split(x + row * kHidden, weight, scales, biases, kHidden, 1, first, lane, simdgroup, terms, pair);
    uint word[QWISP_WORDS];
    if (simdgroup == 0) {
        uint before = 0;
        if (lane == 0) {
            const uint own = ~(publishable(pair[0]) | (publishable(pair[1]) << 16));
            atomic_store_explicit(words + row_start + group.y, own, memory_order_relaxed);
            before = atomic_fetch_add_explicit(arrivals + row, 1u, memory_order_relaxed);
        }
        for (uint q = 0; q < QWISP_WORDS; q++) {
            const uint at = lane + kSimdWidth * q;
            word[q] = 0;
            if (at < row_words) word[q] = atomic_load_explicit(words + row_start + at, memory_order_relaxed);
        }
        if (lane == 0) {
            arrived[0] = before;
            if (kWriteLogits) {
                for (uint r = 0; r < kSplitExperts; r++) logits[row * kExperts + first + r] = pair[r];
            }
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (arrived[0] + 1 != groups.y) return;

    if (simdgroup == 0) {
        if (lane == 0) atomic_store_explicit(arrivals + row, 0u, memory_order_relaxed);
        for (uint q = 0; q < QWISP_WORDS; q++) {
            const uint at = lane + kSimdWidth * q;
            half low = half(QWISP_NEGATIVE_INFINITY), high = low;
            if (at < row_words) {
                while (word[q] == 0) word[q] = atomic_load_explicit(words + row_start + at, memory_order_relaxed);
                atomic_store_explicit(words + row_start + at, 0u, memory_order_relaxed);
                low = as_type<half>(ushort(~word[q] & 0xffffu));
                high = as_type<half>(ushort(~word[q] >> 16));
            }
            row_logits[2 * at] = low;
            row_logits[2 * at + 1] = high;
        }
    }
    float boost[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const uint slot = lane + kSimdWidth * j;
        boost[j] = 0.0f;
        if (kUseBias && slot < kExperts) boost[j] = resident[slot] != 0 ? args.eps : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    route_row_wide(row_logits, boost, kUseBias, kExperts, kTopK, lane, simdgroup, exponential,
                   inds + row * kTopK, scores + row * kTopK);
}
