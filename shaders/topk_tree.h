// CONTRACT section 3, literally: kRouteThreads threads, one slot each, barrier trees.
#pragma once
#include "compat.h"
#include "route_types.h"

// Thread t holds lg[t] in `logit` and the value to choose by in `choice` (lg, or lg plus the bias).
// `value`, `index` and `chosen` hold kRouteThreads elements.
inline void route_row_tree(float logit, float choice, uint experts, uint top_k, uint t,
                           QWISP_THREADGROUP(float) value, QWISP_THREADGROUP(uint) index,
                           QWISP_THREADGROUP(half) chosen, QWISP_DEVICE(int) inds,
                           QWISP_DEVICE(half) scores) {
    value[t] = logit;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint s = kRouteThreads / 2; s > 0; s /= 2) {
        if (t < s) value[t] = fmax(float(value[t]), float(value[t + s]));
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    const float maximum = value[0];
    threadgroup_barrier(mem_flags::mem_threadgroup);

    const float exponential = t < experts ? precise::exp(logit - maximum) : 0.0f;
    value[t] = exponential;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint s = kRouteThreads / 2; s > 0; s /= 2) {
        if (t < s) value[t] = float(value[t]) + float(value[t + s]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    const half gate = half(exponential / float(value[0]));
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint k = 0; k < top_k; k++) {
        value[t] = choice;
        index[t] = t;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = kRouteThreads / 2; s > 0; s /= 2) {
            if (t < s && float(value[t + s]) > float(value[t])) {
                value[t] = float(value[t + s]);
                index[t] = uint(index[t + s]);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        const uint winner = index[0];
        threadgroup_barrier(mem_flags::mem_threadgroup);  // before the next round writes slot 0
        if (t == winner) {
            choice = QWISP_NEGATIVE_INFINITY;
            chosen[k] = gate;
            inds[k] = int(winner);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    if (t < top_k) {
        half sum = half(0.0f);
        for (uint k = 0; k < top_k; k++) sum = sum + half(chosen[k]);
        scores[t] = half(chosen[t]) / sum;
    }
}
