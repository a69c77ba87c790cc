// CONTRACT sections 3 and 4 by eight simdgroups that all hold the row: simdgroup q takes the exponentials of the
// slots 32 q .. 32 q + 31, then simdgroup 0 chooses while simdgroup 1 adds. Two barriers.
#pragma once
#include "topk_simd.h"

// `exponential` holds kRouteThreads + 1 floats; the rest is as in route_row_simd. All kSplitThreads threads
// call it.
inline void route_row_wide(QWISP_THREAD(const half) logit, QWISP_THREAD(const float) boost, bool biased,
                           uint experts, uint top_k, uint lane, uint simdgroup,
                           QWISP_THREADGROUP(float) exponential, QWISP_DEVICE(int) inds,
                           QWISP_DEVICE(half) scores) {
    const bool nan = row_has_nan(logit);
    const float maximum = row_maximum(logit, nan);
    half mine = logit[0];
    for (uint j = 1; j < QWISP_SLOTS; j++) mine = simdgroup == j ? logit[j] : mine;
    const uint slot = simdgroup * kSimdWidth + lane;
    exponential[slot] = slot < experts ? precise::exp(float(mine) - maximum) : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint won = 0;
    if (simdgroup == 0) {
        won = choose(logit, boost, biased, nan, top_k, lane);
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
