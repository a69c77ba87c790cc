// The first kernel of the incumbent pair: x -> logits. Grid (rows, experts / 8), 2 simdgroups.
#if !defined(QWISP_CONTRACT_COMPILER)
#pragma METAL fp contract(off)  // safe math alone does not stop contraction (docs/apple.md)
#endif
#pragma METAL fp math_mode(safe)
#include "qmm8.h"

QWISP_KERNEL(qmm8_rows)(QWISP_BUFFER(const half, x, kQmmX), QWISP_BUFFER(const uchar, weight, kQmmWeight),
                        QWISP_BUFFER(const half, scales, kQmmScales),
                        QWISP_BUFFER(const half, biases, kQmmBiases), QWISP_BUFFER(half, logits, kQmmLogits),
                        QWISP_ARGS(QmmArgs, args, kQmmArgs) QWISP_THREAD_ARGS) {
    const uint first = group.y * kExpertsPerGroup + simdgroup * kExpertsPerSimd;
    float logit[kExpertsPerSimd];
    qmm8_simdgroup(x + group.x * args.hidden, weight, scales, biases, args.hidden, first, lane, logit);
    if (lane == 0) {
        for (uint r = 0; r < kExpertsPerSimd; r++) logits[group.x * args.experts + first + r] = half(logit[r]);
    }
}
