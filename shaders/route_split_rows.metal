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
    QWISP_LET_NEXT_START();
    QWISP_AWAIT_PREVIOUS();
    QWISP_DEVICE(const half) row = logits + group.x * kExperts;
    uint pair[QWISP_PAIRS];
    for (uint q = 0; q < QWISP_PAIRS; q++) {
        const uint at = lane + kSimdWidth * q;
        pair[q] = QWISP_NO_EXPERTS;
        if (2 * at < kExperts) pair[q] = *(QWISP_DEVICE(const uint))(row + 2 * at);
    }
    half own = half(QWISP_NEGATIVE_INFINITY), shared = own;
    if (thread_index < kExperts) own = row[thread_index];
    if (lane < kExperts) shared = row[lane];
    float boost[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const uint slot = lane + kSimdWidth * j;
        boost[j] = 0.0f;
        if (kUseBias && slot < kExperts) boost[j] = resident[slot] != 0 ? args.eps : 0.0f;
    }
    route_row_wide(pair, own, shared, boost, kUseBias, kExperts, kTopK, lane, simdgroup, exponential,
                   inds + group.x * kTopK, scores + group.x * kTopK);
}

// Two published logits, inverted: 0 means "not here yet" whatever they are, since a NaN is published as 0x7e00.
inline uint publishable(half logit) { return is_nan(logit) ? 0x7e00u : uint(as_type<ushort>(logit)); }

// Reads those of a lane's words that are not here yet, side by side; false if one still is not.
inline bool read_words(QWISP_DEVICE(atomic_uint) words, uint count, uint lane, QWISP_THREAD(uint) word) {
    for (uint q = 0; q < QWISP_PAIRS; q++) {
        const uint at = lane + kSimdWidth * q;
        if (at < count && word[q] == 0) word[q] = atomic_load_explicit(words + at, memory_order_relaxed);
    }
    bool all = true;
    for (uint q = 0; q < QWISP_PAIRS; q++) all = all && (lane + kSimdWidth * q >= count || word[q] != 0);
    return all;
}

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
    QWISP_THREADGROUP_ARRAY(uint, pairs, kRouteThreads / 2);
    QWISP_THREADGROUP_ARRAY(uint, is_last, 1);
    QWISP_LET_NEXT_START();
    const uint row = group.x, first = group.y * kSplitExperts;
    const uint row_words = kExperts / kSplitExperts;
    QWISP_DEVICE(atomic_uint) published = words + row * row_words;
    half own_logits[kSplitExperts];
    qmm8_split(x + row * kHidden, weight, scales, biases, kHidden, 1, first, lane, simdgroup, terms,
               own_logits);
    if (simdgroup == 0) {
        uint before = 0;
        if (lane == 0) {
            const uint word = ~(publishable(own_logits[0]) | (publishable(own_logits[1]) << 16));
            atomic_store_explicit(published + group.y, word, memory_order_relaxed);
            before = atomic_fetch_add_explicit(arrivals + row, 1u, memory_order_relaxed);
        }
        uint word[QWISP_PAIRS];
        for (uint q = 0; q < QWISP_PAIRS; q++) word[q] = 0;
        bool is_here = read_words(published, row_words, lane, word);
        const bool last = simd_shuffle(before, 0u) + 1 == groups.y;
        if (lane == 0) {
            is_last[0] = last ? 1 : 0;
            if (kWriteLogits) {
                for (uint r = 0; r < kSplitExperts; r++) logits[row * kExperts + first + r] = own_logits[r];
            }
        }
        if (last) {
            while (!is_here) is_here = read_words(published, row_words, lane, word);
            for (uint q = 0; q < QWISP_PAIRS; q++) {
                const uint at = lane + kSimdWidth * q;
                pairs[at] = at < row_words ? ~word[q] : QWISP_NO_EXPERTS;
                if (at < row_words) atomic_store_explicit(published + at, 0u, memory_order_relaxed);
            }
            if (lane == 0) atomic_store_explicit(arrivals + row, 0u, memory_order_relaxed);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (is_last[0] == 0) return;

    uint pair[QWISP_PAIRS];
    for (uint q = 0; q < QWISP_PAIRS; q++) pair[q] = pairs[lane + kSimdWidth * q];
    const half own = half_of_pair(pairs[thread_index / 2], lane), shared = half_of_pair(pairs[lane / 2], lane);
    float boost[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const uint slot = lane + kSimdWidth * j;
        boost[j] = 0.0f;
        if (kUseBias && slot < kExperts) boost[j] = resident[slot] != 0 ? args.eps : 0.0f;
    }
    route_row_wide(pair, own, shared, boost, kUseBias, kExperts, kTopK, lane, simdgroup, exponential,
                   inds + row * kTopK, scores + row * kTopK);
}
