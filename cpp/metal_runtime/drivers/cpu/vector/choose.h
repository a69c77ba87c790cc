// CONTRACT sections 3 and 4 in vectors: a row of logits to its experts and scores.
#pragma once
#include "metal_runtime/drivers/cpu/vector/exp.h"

namespace qwisp::metal::vector::QWISP_VECTOR_TARGET {

constexpr int kSlots = 256;
constexpr int kRegisters = kSlots / kWidth;
constexpr uint16_t kNegativeInfinity = 0xfc00;

// Among equal values the smaller bit-reversed index is chosen first (contract, section 3).
constexpr int32_t reversed(int32_t slot) {
    int32_t out = 0;
    for (int bit = 0; bit < 8; bit++) out |= ((slot >> bit) & 1) << (7 - bit);
    return out;
}
struct RankTable {
    alignas(64) int32_t of[kSlots];
    constexpr RankTable() : of() {
        for (int slot = 0; slot < kSlots; slot++) of[slot] = kSlots - 1 - reversed(slot);
    }
};
constexpr RankTable kRank;
QWISP_ALWAYS_INLINE int32_t slot_of_rank(int32_t rank) { return kRank.of[kSlots - 1 - rank] ^ 0xff; }

QWISP_ALWAYS_INLINE I32 largest_of(const I32 *keys) {
    I32 best[kRegisters / 2];
    QWISP_UNROLL
    for (int j = 0; j < kRegisters / 2; j++) best[j] = max(keys[j], keys[j + kRegisters / 2]);
    QWISP_UNROLL
    for (int s = kRegisters / 4; s > 0; s /= 2) {
        QWISP_UNROLL
        for (int j = 0; j < s; j++) best[j] = max(best[j], best[j + s]);
    }
    return best[0];
}

// Value and rank in one key of 24 bits. When only -inf is left, slot 0 keeps the tree.
static void choose_by_logit(const uint16_t *halves, uint32_t top_k, int32_t *inds) {
    using I16 = int16_t __attribute__((vector_size(2 * kWidth)));
    I32 keys[kRegisters];
    QWISP_UNROLL
    for (int j = 0; j < kRegisters; j++) {
        I32 bits = __builtin_convertvector(load<I16>(halves + j * kWidth), I32);
        bits = bits == -0x8000 ? I32{} : bits;
        const I32 order = (bits ^ ((bits >> 31) | 0x8000)) & 0xffff;
        keys[j] = (order << 8) | load<I32>(kRank.of + j * kWidth);
    }
    constexpr int32_t kInfinite = ((kNegativeInfinity ^ 0xffff) << 8) | 0xff;
    for (uint32_t k = 0; k < top_k; k++) {
        const int32_t best = largest(largest_of(keys));
        inds[k] = best <= kInfinite ? 0 : slot_of_rank(best & 0xff);
        QWISP_UNROLL
        for (int j = 0; j < kRegisters; j++) keys[j] = keys[j] == best ? I32{} : keys[j];
    }
}

// Biased values need all 32 bits: the rank is a second maximum.
static void choose_by_value(const float *values, uint32_t top_k, int32_t *inds) {
    I32 keys[kRegisters];
    for (int j = 0; j < kRegisters; j++) {
        I32 bits = load<I32>(values + j * kWidth);
        bits = bits == INT32_MIN ? I32{} : bits;
        keys[j] = bits < 0 ? bits ^ INT32_MAX : bits;
    }
    constexpr int32_t kInfinite = static_cast<int32_t>(0xff800000u) ^ INT32_MAX;
    for (uint32_t k = 0; k < top_k; k++) {
        const int32_t best = largest(largest_of(keys));
        I32 ranks[kRegisters];
        for (int j = 0; j < kRegisters; j++) {
            ranks[j] = keys[j] == best ? load<I32>(kRank.of + j * kWidth) : I32{} - 1;
        }
        const int32_t rank = largest(largest_of(ranks));
        for (int j = 0; j < kRegisters; j++) keys[j] = ranks[j] == rank ? splat(INT32_MIN) : keys[j];
        inds[k] = best <= kInfinite ? 0 : slot_of_rank(rank);
    }
}

// A row with a NaN has no order: the tree itself.
static void choose_by_tree(float *work, uint32_t top_k, int32_t *inds) {
    for (uint32_t k = 0; k < top_k; k++) {
        float value[kSlots];
        int32_t slot[kSlots];
        for (int t = 0; t < kSlots; t++) {
            value[t] = work[t];
            slot[t] = t;
        }
        for (int s = kSlots / 2; s > 0; s /= 2) {
            for (int t = 0; t < s; t++) {
                if (!(value[t + s] > value[t])) continue;
                value[t] = value[t + s];
                slot[t] = slot[t + s];
            }
        }
        inds[k] = slot[0];
        work[slot[0]] = -__builtin_inff();
    }
}

QWISP_ALWAYS_INLINE bool any(I32 mask) {
    I32 none = mask == 0;
    for (int i = 0; i < kWidth; i++) {
        if (none[i] == 0) return true;
    }
    return false;
}

// The tree of + over all slots.
QWISP_ALWAYS_INLINE float tree_sum(const float *values) {
    F32 sum[kRegisters / 2];
    QWISP_UNROLL
    for (int j = 0; j < kRegisters / 2; j++) {
        sum[j] = load<F32>(values + j * kWidth) + load<F32>(values + (j + kRegisters / 2) * kWidth);
    }
    QWISP_UNROLL
    for (int s = kRegisters / 4; s > 0; s /= 2) {
        QWISP_UNROLL
        for (int j = 0; j < s; j++) sum[j] = sum[j] + sum[j + s];
    }
    float lanes[kWidth];
    store(lanes, sum[0]);
    QWISP_UNROLL
    for (int s = kWidth / 2; s > 0; s /= 2) {
        QWISP_UNROLL
        for (int t = 0; t < s; t++) lanes[t] = lanes[t] + lanes[t + s];
    }
    return lanes[0];
}

static void choose(const uint16_t *logits, const Choice &choice, int32_t *inds, uint16_t *scores) {
    const uint32_t experts = choice.experts, top_k = choice.top_k;
    alignas(64) uint16_t halves[kSlots];
    memcpy(halves, logits, experts * sizeof(uint16_t));
    for (uint32_t t = experts; t < kSlots; t++) halves[t] = kNegativeInfinity;

    alignas(64) float lg[kSlots];
    alignas(64) float exponential[kSlots];
    F32 most = splat(-__builtin_inff());
    I32 nan = {};
    QWISP_UNROLL
    for (int j = 0; j < kRegisters; j++) {
        const F32 v = load_halves(halves + j * kWidth);
        store(lg + j * kWidth, v);
        nan |= v != v;
        most = max(v, most);
    }
    bool has_nan = any(nan);
    float maximum = -__builtin_inff();
    if (has_nan) {  // fmax: a NaN loses to a number
        maximum = lg[0];
        for (uint32_t t = 1; t < kSlots; t++)
            maximum = lg[t] > maximum || maximum != maximum ? lg[t] : maximum;
    } else {
        for (int i = 0; i < kWidth; i++) maximum = most[i] > maximum ? most[i] : maximum;
    }

    QWISP_UNROLL
    for (int j = 0; j < kRegisters; j++) {
        store(exponential + j * kWidth, load<F32>(lg + j * kWidth) - splat(maximum));
    }
    exponentials(exponential, experts, exponential);
    for (uint32_t t = experts; t < kSlots; t++) exponential[t] = 0.0f;
    const float total = tree_sum(exponential);

    if (choice.resident != nullptr) {
        for (uint32_t t = 0; t < experts; t++) lg[t] = lg[t] + (choice.resident[t] != 0 ? choice.eps : 0.0f);
        for (uint32_t t = 0; t < experts; t++) has_nan = has_nan || lg[t] != lg[t];
    }
    if (has_nan) {
        choose_by_tree(lg, top_k, inds);
    } else if (choice.resident != nullptr) {
        choose_by_value(lg, top_k, inds);
    } else {
        choose_by_logit(halves, top_k, inds);
    }

    alignas(64) float gate[kSlots];
    alignas(64) uint16_t rounded[kSlots];
    const uint32_t padded = (top_k + kWidth - 1) / kWidth * kWidth;
    for (uint32_t k = 0; k < padded; k++) gate[k] = k < top_k ? exponential[inds[k]] : 0.0f;
    for (uint32_t k = 0; k < padded; k += kWidth)
        store_halves(rounded + k, load<F32>(gate + k) / splat(total));
    for (uint32_t k = 0; k < padded; k += kWidth) store(gate + k, load_halves(rounded + k));
    float sum = 0.0f;
    for (uint32_t k = 0; k < top_k; k++) sum = to_float(to_half(sum + gate[k]));
    for (uint32_t k = 0; k < padded; k += kWidth) store_halves(rounded + k, load<F32>(gate + k) / splat(sum));
    memcpy(scores, rounded, top_k * sizeof(uint16_t));
}

}  // namespace qwisp::metal::vector::QWISP_VECTOR_TARGET
