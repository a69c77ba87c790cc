// CONTRACT sections 3 and 4 in one simdgroup: registers, shuffles and integer keys, no barrier.
// Slot t = lane + 32 j sits in register j of the lane, so a tree over 256 slots is three steps between
// registers (128, 64, 32) and five shuffles (16 .. 1); lane 0 follows the tree to its root.
#pragma once
#include "compat.h"
#include "route_types.h"

#define QWISP_SLOTS (kRouteThreads / kSimdWidth)  // registers a lane

// Among equal values the smaller bit-reversed index is chosen first: 255 for slot 0, 0 for slot 255.
inline uint tie_rank(uint slot) { return kRouteThreads - 1 - (reverse_bits(slot) >> 24); }
inline uint slot_of_rank(uint rank) { return reverse_bits(kRouteThreads - 1 - rank) >> 24; }

// Unsigned keys in the order of the values, -0 equal to +0, NaN excluded, 0 below every value.
inline uint order_key(half value) {
    uint bits = as_type<ushort>(value);
    if (bits == 0x8000u) bits = 0;
    return (bits & 0x8000u) != 0 ? bits ^ 0xffffu : bits ^ 0x8000u;
}
inline uint order_key(float value) {
    uint bits = as_type<uint>(value);
    if (bits == 0x80000000u) bits = 0;
    return (bits & 0x80000000u) != 0 ? ~bits : bits ^ 0x80000000u;
}

inline float half_of_key(uint key) {
    const uint bits = (key & 0x8000u) != 0 ? key ^ 0x8000u : key ^ 0xffffu;
    return float(as_type<half>(ushort(bits)));
}

// The larger of two keys first.
inline void order_keys(QWISP_THREAD(uint) key, uint a, uint b) {
    const uint larger = key[a] > key[b] ? key[a] : key[b];
    key[b] = key[a] > key[b] ? key[b] : key[a];
    key[a] = larger;
}
// Batcher's odd-even merge sort of a lane's eight keys.
inline void sort_keys(QWISP_THREAD(uint) key) {
    static_assert(QWISP_SLOTS == 8, "the network is for eight");
    for (uint i = 0; i < 8; i += 2) order_keys(key, i, i + 1);
    for (uint i = 0; i < 8; i += 4) {
        order_keys(key, i, i + 2);
        order_keys(key, i + 1, i + 3);
        order_keys(key, i + 1, i + 2);
    }
    for (uint i = 0; i < 4; i++) order_keys(key, i, i + 4);
    for (uint i = 2; i < 4; i++) order_keys(key, i, i + 2);
    for (uint i = 1; i < 7; i += 2) order_keys(key, i, i + 1);
}

// No bias: value and rank fit one 24-bit key, and no two keys are equal. A lane's eight, the largest first.
inline void sorted_keys(QWISP_THREAD(const half) logit, uint lane, QWISP_THREAD(uint) key) {
    for (uint j = 0; j < QWISP_SLOTS; j++) key[j] = (order_key(logit[j]) << 8) | tie_rank(lane + kSimdWidth * j);
    sort_keys(key);
}
// Puts the keys of the winners first .. last - 1 into lanes first .. last - 1.
inline void choose_rounds(QWISP_THREAD(uint) key, uint first, uint last, uint lane, QWISP_THREAD(uint) won) {
    for (uint k = first; k < last; k++) {
        const uint best = simd_max(key[0]);
        const bool is_mine = key[0] == best;
        for (uint j = 0; j + 1 < QWISP_SLOTS; j++) key[j] = is_mine ? key[j + 1] : key[j];
        key[QWISP_SLOTS - 1] = is_mine ? 0 : key[QWISP_SLOTS - 1];
        *won = lane == k ? best : *won;
    }
}
// Only -inf is left: slot 0 keeps the whole tree, chosen before or not.
inline uint slot_of_key(uint key) {
    const uint infinite = (order_key(half(QWISP_NEGATIVE_INFINITY)) << 8) | 0xffu;
    return key <= infinite ? 0 : slot_of_rank(key & 0xffu);
}

// Each choose function returns the k-th winner in lane k.

inline uint choose_by_logit(QWISP_THREAD(const half) logit, uint top_k, uint lane) {
    uint key[QWISP_SLOTS];
    uint won = 0;
    sorted_keys(logit, lane, key);
    choose_rounds(key, 0, top_k, lane, &won);
    return slot_of_key(won);
}

// Biased: 32-bit values, so the rank is a second maximum.
inline uint choose_by_value(QWISP_THREAD(const float) value, uint top_k, uint lane) {
    uint key[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) key[j] = order_key(value[j]);
    const uint infinite = order_key(QWISP_NEGATIVE_INFINITY);
    uint won = 0;
    for (uint k = 0; k < top_k; k++) {
        uint best = key[0];
        for (uint j = 1; j < QWISP_SLOTS; j++) best = key[j] > best ? key[j] : best;
        best = simd_max(best);
        uint rank = 0;
        for (uint j = 0; j < QWISP_SLOTS; j++) {
            const uint mine = key[j] == best ? tie_rank(lane + kSimdWidth * j) : 0;
            rank = mine > rank ? mine : rank;
        }
        const uint slot = slot_of_rank(simd_max(rank));
        for (uint j = 0; j < QWISP_SLOTS; j++) key[j] = slot == lane + kSimdWidth * j ? 0 : key[j];
        if (lane == k) won = best <= infinite ? 0 : slot;
    }
    return won;
}

// A row with a NaN has no order: walk the tree itself.
inline uint choose_by_tree(QWISP_THREAD(float) work, uint top_k, uint lane) {
    uint won = 0;
    for (uint k = 0; k < top_k; k++) {
        float value[QWISP_SLOTS];
        uint slot[QWISP_SLOTS];
        for (uint j = 0; j < QWISP_SLOTS; j++) {
            value[j] = work[j];
            slot[j] = lane + kSimdWidth * j;
        }
        for (uint s = QWISP_SLOTS / 2; s > 0; s /= 2) {
            for (uint j = 0; j < s; j++) {
                const bool take = value[j + s] > value[j];
                slot[j] = take ? slot[j + s] : slot[j];
                value[j] = take ? value[j + s] : value[j];
            }
        }
        for (uint s = kSimdWidth / 2; s > 0; s /= 2) {
            const float other = simd_shuffle_xor(value[0], s);
            const uint other_slot = simd_shuffle_xor(slot[0], s);
            const bool take = other > value[0];
            slot[0] = take ? other_slot : slot[0];
            value[0] = take ? other : value[0];
        }
        const uint winner = simd_shuffle(slot[0], 0u);
        for (uint j = 0; j < QWISP_SLOTS; j++) {
            if (winner == lane + kSimdWidth * j) work[j] = QWISP_NEGATIVE_INFINITY;
        }
        if (lane == k) won = winner;
    }
    return won;
}

inline bool is_nan(half value) { return (as_type<ushort>(value) & 0x7fffu) > 0x7c00u; }

inline bool row_has_nan(QWISP_THREAD(const half) logit) {
    uint largest = 0;  // without the sign, a NaN is above infinity
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const uint bits = as_type<ushort>(logit[j]) & 0x7fffu;
        largest = bits > largest ? bits : largest;
    }
    return simd_any(largest > 0x7c00u);
}

// The tree of max, in which a NaN loses.
inline float row_maximum(QWISP_THREAD(const half) logit, bool nan) {
    if (!nan) {
        uint best = order_key(logit[0]);
        for (uint j = 1; j < QWISP_SLOTS; j++) best = order_key(logit[j]) > best ? order_key(logit[j]) : best;
        return half_of_key(simd_max(best));
    }
    float maximum = float(logit[0]);
    for (uint j = 1; j < QWISP_SLOTS; j++) maximum = fmax(maximum, float(logit[j]));
    for (uint s = kSimdWidth / 2; s > 0; s /= 2) maximum = fmax(maximum, simd_shuffle_xor(maximum, s));
    return maximum;
}

inline uint choose(QWISP_THREAD(const half) logit, QWISP_THREAD(const float) boost, bool biased, bool nan,
                   uint top_k, uint lane) {
    if (!nan && !biased) return choose_by_logit(logit, top_k, lane);
    float value[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        value[j] = biased ? float(logit[j]) + boost[j] : float(logit[j]);
    }
    return nan ? choose_by_tree(value, top_k, lane) : choose_by_value(value, top_k, lane);
}

// The tree of +, in every lane.
inline float sum_tree(QWISP_THREAD(float) sum) {
    for (uint s = QWISP_SLOTS / 2; s > 0; s /= 2) {
        for (uint j = 0; j < s; j++) sum[j] = sum[j] + sum[j + s];
    }
    float total = sum[0];
    for (uint s = kSimdWidth / 2; s > 0; s /= 2) total = total + simd_shuffle_xor(total, s);
    return total;
}

// `gate` and `won` are the k-th winner's in lane k.
inline void write_route(half gate, uint won, uint top_k, uint lane, QWISP_DEVICE(int) inds,
                        QWISP_DEVICE(half) scores) {
    half denominator = half(0.0f);
    for (uint k = 0; k < top_k; k++) denominator = denominator + simd_shuffle(gate, k);
    if (lane < top_k) {
        inds[lane] = int(won);
        scores[lane] = gate / denominator;
    }
}

// `logit[j]` is slot lane + 32 j, -inf above the experts; `boost[j]` is what the bias adds to it.
// All lanes of one simdgroup call it; top_k <= kMaxFusedTopK.
inline void route_row_simd(QWISP_THREAD(const half) logit, QWISP_THREAD(const float) boost, bool biased,
                           uint experts, uint top_k, uint lane, QWISP_DEVICE(int) inds,
                           QWISP_DEVICE(half) scores) {
    const bool nan = row_has_nan(logit);
    const float maximum = row_maximum(logit, nan);
    float exponential[QWISP_SLOTS];
    float sum[QWISP_SLOTS];
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        exponential[j] = lane + kSimdWidth * j < experts ? precise::exp(float(logit[j]) - maximum) : 0.0f;
        sum[j] = exponential[j];
    }
    const float total = sum_tree(sum);
    const uint won = choose(logit, boost, biased, nan, top_k, lane);

    float winner = 0.0f;  // the exponential of this lane's expert, from the lane that owns its slot
    for (uint j = 0; j < QWISP_SLOTS; j++) {
        const float candidate = simd_shuffle(exponential[j], won % kSimdWidth);
        winner = won / kSimdWidth == j ? candidate : winner;
    }
    write_route(half(winner / total), won, top_k, lane, inds, scores);
}
