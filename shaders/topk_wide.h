// CONTRACT sections 3 and 4 by eight simdgroups: every thread takes one exponential and ranks one logit among
// those of its simdgroup, then the best of each are ranked while one simdgroup adds. Two barriers.
#pragma once
#include "topk_simd.h"

enum : uint { kCandidates = 8 };  // of each simdgroup

// A logit's order in 16 bits. All NaN are alike, and above infinity.
inline uint row_order(half logit) { return is_nan(logit) ? 0xfe00u : order_key(logit); }
inline uint row_key(uint order, uint slot) { return (order << 8) | tie_rank(slot); }

// How many of kSimdWidth keys are larger than this one. All lanes read the same four.
inline uint rank_among(QWISP_THREADGROUP(const uint4) others, uint key) {
    uint rank = 0;
    for (uint i = 0; i < kSimdWidth / 4; i++) {
        const uint4 four = others[i];
        rank += (four.x > key ? 1 : 0) + (four.y > key ? 1 : 0) + (four.z > key ? 1 : 0) + (four.w > key ? 1 : 0);
    }
    return rank;
}

// What the tail of a row needs of threadgroup memory.
#define QWISP_WIDE_ARRAYS                                                            \
    QWISP_THREADGROUP_ARRAY(uint4, row_keys, kRouteThreads / 4);                     \
    QWISP_THREADGROUP_ARRAY(uint4, candidates, kCandidates *kSplitSimdgroups / 4);   \
    QWISP_THREADGROUP_ARRAY(uint, chosen, kMaxFusedTopK);                            \
    QWISP_THREADGROUP_ARRAY(float, exponential, kRouteThreads)

// `row_keys` holds the row's kRouteThreads row_key, of -inf above the experts, and a barrier stands behind them;
// `boost[j]` is what the bias adds to slot lane + 32 j. All kSplitThreads threads call it.
inline void route_row_wide(QWISP_THREADGROUP(uint4) row_keys, QWISP_THREADGROUP(uint4) candidates,
                           QWISP_THREADGROUP(uint) chosen, QWISP_THREADGROUP(float) exponential,
                           QWISP_THREAD(const float) boost, bool biased, uint experts, uint top_k, uint lane,
                           uint simdgroup, QWISP_DEVICE(int) inds, QWISP_DEVICE(half) scores) {
    QWISP_THREADGROUP(uint) keys = (QWISP_THREADGROUP(uint))row_keys;
    QWISP_THREADGROUP(uint) candidate = (QWISP_THREADGROUP(uint))candidates;
    const uint slot = simdgroup * kSimdWidth + lane;
    const uint own = keys[slot];
    half logit[QWISP_SLOTS];
    uint best = 0;
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const uint key = keys[lane + kSimdWidth * j];
        logit[j] = half(half_of_key(key >> 8));
        best = key > best ? key : best;
    }
    const bool has_rank = !biased && top_k <= kCandidates;
    if (has_rank) {  // before the maximum is known: an instruction's latency hides behind the other's
        const uint rank = rank_among(row_keys + simdgroup * (kSimdWidth / 4), own);
        if (rank < kCandidates) candidate[simdgroup * kCandidates + rank] = own;
    }
    best = simd_max(best) >> 8;
    const bool nan = best > order_key(half(-QWISP_NEGATIVE_INFINITY));
    const float maximum = nan ? row_maximum(logit, true) : half_of_key(best);
    exponential[slot] = slot < experts ? precise::exp(half_of_key(own >> 8) - maximum) : 0.0f;
    const bool is_ranked = has_rank && !nan;  // NaN have no order
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float total = 0.0f;
    if (simdgroup == 0) {
        float sum[QWISP_SLOTS];
        for (uint j = 0; j < QWISP_SLOTS; j++) sum[j] = exponential[lane + kSimdWidth * j];
        total = sum_tree(sum);
    } else if (is_ranked && simdgroup >= kSplitSimdgroups / 2) {  // two threads a candidate, one for each half
        const uint part = lane % 2;
        const uint key = candidate[slot / 2 - kSplitThreads / 4];
        uint rank = rank_among(candidates + part * (kSimdWidth / 4), key);
        rank += simd_shuffle_xor(rank, 1u);
        if (part == 0 && rank < top_k) chosen[rank] = slot_of_key(key);
    } else if (!is_ranked && simdgroup == 1) {
        const uint won = choose(logit, boost, biased, nan, top_k, lane);
        if (lane < top_k) chosen[lane] = won;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup != 0) return;
    const uint won = lane < top_k ? uint(chosen[lane]) : 0;
    write_route(half(exponential[won] / total), won, top_k, lane, inds, scores);
}
