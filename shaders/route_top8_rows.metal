// The second kernel of the incumbent pair: logits -> experts and scores. Grid (rows), 256 threads.
#if !defined(QWISP_CONTRACT_COMPILER)
#pragma METAL fp contract(off)  // safe math alone does not stop contraction (docs/apple.md)
#endif
#pragma METAL fp math_mode(safe)
#include "topk_tree.h"

QWISP_KERNEL(route_top8_rows)(QWISP_BUFFER(const half, logits, kTopkLogits), QWISP_BUFFER(int, inds, kTopkInds),
                              QWISP_BUFFER(half, scores, kTopkScores),
                              QWISP_ARGS(TopkArgs, args, kTopkArgs) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(float, value, kRouteThreads);
    QWISP_THREADGROUP_ARRAY(uint, index, kRouteThreads);
    QWISP_THREADGROUP_ARRAY(half, chosen, kRouteThreads);
    const uint t = thread_index;
    const float logit =
        t < args.experts ? float(logits[group.x * args.experts + t]) : QWISP_NEGATIVE_INFINITY;
    route_row_tree(logit, logit, args.experts, args.top_k, t, value, index, chosen,
                   inds + group.x * args.top_k, scores + group.x * args.top_k);
}

// CONTRACT section 4: chooses on the logits plus eps where the expert is resident.
QWISP_KERNEL(route_top8_rows_bias)(QWISP_BUFFER(const half, logits, kTopkLogits),
                                   QWISP_BUFFER(int, inds, kTopkInds), QWISP_BUFFER(half, scores, kTopkScores),
                                   QWISP_ARGS(TopkArgs, args, kTopkArgs),
                                   QWISP_BUFFER(const int, resident, kTopkResident) QWISP_THREAD_ARGS) {
    QWISP_THREADGROUP_ARRAY(float, value, kRouteThreads);
    QWISP_THREADGROUP_ARRAY(uint, index, kRouteThreads);
    QWISP_THREADGROUP_ARRAY(half, chosen, kRouteThreads);
    const uint t = thread_index;
    float logit = QWISP_NEGATIVE_INFINITY;
    float boost = 0.0f;
    if (t < args.experts) {
        logit = float(logits[group.x * args.experts + t]);
        boost = resident[t] != 0 ? args.eps : 0.0f;
    }
    route_row_tree(logit, logit + boost, args.experts, args.top_k, t, value, index, chosen,
                   inds + group.x * args.top_k, scores + group.x * args.top_k);
}
