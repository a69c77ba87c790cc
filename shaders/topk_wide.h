// CONTRACT sections 3 and 4 by eight simdgroups: simdgroup 0 chooses while the others take the exponentials and
// add them. Two barriers.
#pragma once
#include "topk_simd.h"

// A lane holds four words of two logits each, as they lie in memory: word lane + 32 q, slots 2 (lane + 32 q) and
// the next.
#define QWISP_PAIRS (QWISP_SLOTS / 2)
#define QWISP_NO_EXPERTS 0xfc00fc00u  // two -inf

// order_key() of both halves at once. With the signs left out, a sum's bit 15 tells what is above 0.
inline uint order_keys(uint pair) {
    const uint signless = 0x7fff7fffu;
    const uint value = pair & (((pair & signless) + signless) | signless);  // -0 becomes 0
    return value ^ ((((value >> 15) & 0x00010001u) * 0x7fffu) | 0x80008000u);
}
inline bool pairs_have_nan(QWISP_THREAD(const uint) pair) {
    uint above = 0;  // bit 15 of what is above infinity, 0x7c00
    for (uint q = 0; q < QWISP_PAIRS; q++) above |= (pair[q] & 0x7fff7fffu) + 0x03ff03ffu;
    return simd_any((above & 0x80008000u) != 0);
}
inline half half_of_pair(uint pair, uint index) {
    return as_type<half>(ushort(index % 2 != 0 ? pair >> 16 : pair & 0xffffu));
}

// The layout of topk_simd.h: logit[j] is slot lane + 32 j.
inline void spread_pairs(QWISP_THREAD(const uint) pair, uint lane, QWISP_THREAD(half) logit) {
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const uint from = lane / 2 + kSimdWidth / 2 * (j % 2);
        logit[j] = half_of_pair(simd_shuffle(pair[j / 2], from), lane);
    }
}

inline float pairs_maximum(QWISP_THREAD(const uint) pair, uint lane) {
    if (pairs_have_nan(pair)) {
        half logit[QWISP_SLOTS];
        spread_pairs(pair, lane, logit);
        return row_maximum(logit, true);
    }
    uint best = 0;  // of the upper halves in full, of the lower ones shifted up
    for (uint q = 0; q < QWISP_PAIRS; q++) {
        const uint keys = order_keys(pair[q]), low = keys << 16;
        const uint larger = keys > low ? keys : low;
        best = larger > best ? larger : best;
    }
    return half_of_key(simd_max(best) >> 16);
}

inline void sorted_keys_of_pairs(QWISP_THREAD(const uint) pair, uint lane, QWISP_THREAD(uint) key) {
    const uint rank = tie_rank(2 * lane);  // the ranks of the others differ from it by what their own bits take
    for (uint q = 0; q < QWISP_PAIRS; q++) {
        const uint keys = order_keys(pair[q]), first = rank - (tie_rank(0) - tie_rank(2 * kSimdWidth * q));
        key[2 * q] = ((keys & 0xffffu) << 8) | first;
        key[2 * q + 1] = ((keys >> 16) << 8) | (first - (tie_rank(0) - tie_rank(1)));
    }
    sort_keys(key);
}

// `pair` is the row in each simdgroup, `own` this thread's logit and `shared` that of slot `lane`, -inf above the
// experts; `boost[j]` is what the bias adds to slot lane + 32 j; `exponential` holds kRouteThreads + 1 floats.
// All kSplitThreads threads call it.
inline void route_row_wide(QWISP_THREAD(const uint) pair, half own, half shared,
                           QWISP_THREAD(const float) boost, bool biased, uint experts, uint top_k, uint lane,
                           uint simdgroup, QWISP_THREADGROUP(float) exponential, QWISP_DEVICE(int) inds,
                           QWISP_DEVICE(half) scores) {
    // The choice takes as long as the exponentials and their sum: half of it goes beside each.
    const uint rounds = top_k / 2 + 1;
    uint key[QWISP_SLOTS];
    uint won = 0;
    bool has_keys = false;
    if (simdgroup == 0) {
        const bool nan = pairs_have_nan(pair);
        has_keys = !nan && !biased;
        if (has_keys) {
            sorted_keys_of_pairs(pair, lane, key);
            choose_rounds(key, 0, rounds, lane, &won);
        } else {
            half logit[QWISP_SLOTS];
            spread_pairs(pair, lane, logit);
            won = choose(logit, boost, biased, nan, top_k, lane);
        }
    } else {
        const float maximum = pairs_maximum(pair, lane);
        // Simdgroup 1 takes the slots of simdgroup 0 too; the others do their own twice, at no cost.
        const uint slot = simdgroup * kSimdWidth + lane, second = simdgroup == 1 ? lane : slot;
        const half logit = simdgroup == 1 ? shared : own;
        const float value = precise::exp(float(own) - maximum), other = precise::exp(float(logit) - maximum);
        exponential[slot] = slot < experts ? value : 0.0f;
        exponential[second] = second < experts ? other : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup == 0) {
        if (has_keys) {
            choose_rounds(key, rounds, top_k, lane, &won);
            won = slot_of_key(won);
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
