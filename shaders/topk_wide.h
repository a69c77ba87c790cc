// CONTRACT sections 3 and 4 by eight simdgroups: simdgroup 0 chooses while the others take the exponentials and
// add them. Two barriers.
#pragma once
#include "topk_simd.h"

// `row` holds the row's kRouteThreads logits, -inf above the experts, and a barrier stands behind them;
// `exponential` holds kRouteThreads + 1 floats; `boost[j]` is what the bias adds to slot lane + 32 j. All
// kSplitThreads threads call it.
inline void route_row_wide(QWISP_THREADGROUP(half) row, QWISP_THREAD(const float) boost, bool biased,
                           uint experts, uint top_k, uint lane, uint simdgroup,
                           QWISP_THREADGROUP(float) exponential, QWISP_DEVICE(int) inds,
                           QWISP_DEVICE(half) scores) {
    half logit[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) logit[j] = row[lane + kSimdWidth * j];
    const bool nan = row_has_nan(logit);
    const bool has_keys = !nan && !biased;
    // The choice takes as long as the exponentials and their sum: half of it goes beside each.
    const uint rounds = top_k / 2 + 1;
    uint key[QWISP_SLOTS];
    uint won = 0;
    if (simdgroup == 0) {
        if (has_keys) {
            sorted_keys(logit, lane, key);
            choose_rounds(key, 0, rounds, lane, &won);
        }
    } else {
        const float maximum = row_maximum(logit, nan);
        const uint slot = simdgroup * kSimdWidth + lane;
        exponential[slot] = slot < experts ? precise::exp(float(row[slot]) - maximum) : 0.0f;
        if (simdgroup == 1) exponential[lane] = lane < experts ? precise::exp(float(logit[0]) - maximum) : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup == 0) {
        if (has_keys) {
            choose_rounds(key, rounds, top_k, lane, &won);
            won = slot_of_key(won);
        } else {
            won = choose(logit, boost, biased, nan, top_k, lane);
        }
    } else if (simdgroup == 1) {
        float sum[QWISP_SLOTS];
        for (uint j = 0; j < QWISP_SLOTS; j++) sum[j] = exponential[lane + kSimdWidth * j];
        const float total = sum_tree(sum);
        if (lane == 0) exponential[kRouteThreads] = total;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup != 0) return;
    write_route(half(exponential[won] / exponential[kRouteThreads]), won, top_k, lane, inds, scores);
}
