// CONTRACT sections 2 to 4 in scalars, word for word, and random rows on which a vector target is held
// against it. Nothing is shared with the targets: half precision, exponential and trees are written out.
#pragma once
#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "half_reference.h"
#include "metal_runtime/drivers/cpu/vector/target.h"

namespace qwisp::test {

using metal::vector::Choice;
using metal::vector::Target;

inline float half_value(uint16_t half) { return static_cast<float>(value_of(half)); }  // exact

template <typename Op>
float tree(std::vector<float> a, Op op) {
    for (size_t s = a.size() / 2; s > 0; s /= 2) {
        for (size_t t = 0; t < s; t++) a[t] = op(a[t], a[t + s]);
    }
    return a[0];
}

inline float add(float a, float b) { return a + b; }

struct GateBytes {
    uint32_t hidden, experts;
    std::vector<uint8_t> weight;
    std::vector<uint16_t> scales, biases;
};

// Section 2 for one row and one expert.
inline uint16_t scalar_logit(const GateBytes &gate, const std::vector<float> &x, uint32_t expert) {
    std::vector<float> lanes(32, 0.0f);
    for (uint32_t k = 0; k < gate.hidden; k += 256) {
        for (uint32_t lane = 0; lane < 32; lane++) {
            float sum = 0.0f, accum = 0.0f;
            for (uint32_t c = k + 8 * lane; c < k + 8 * lane + 8; c++) {
                const float product =
                    x[c] * static_cast<float>(gate.weight[size_t{expert} * gate.hidden + c]);
                sum = sum + x[c];
                accum = accum + product;
            }
            const size_t pair = size_t{expert} * (gate.hidden / 64) + (k + 8 * lane) / 64;
            const float scaled = half_value(gate.scales[pair]) * accum;
            const float biased = sum * half_value(gate.biases[pair]);
            lanes[lane] = lanes[lane] + (scaled + biased);
        }
    }
    return nearest(tree(lanes, add));
}

// Sections 3 and 4.
inline void scalar_choice(const uint16_t *logits, const Choice &choice, int32_t *inds, uint16_t *scores) {
    constexpr size_t kThreads = 256;
    std::vector<float> lg(kThreads, -INFINITY), e(kThreads, 0.0f);
    for (uint32_t t = 0; t < choice.experts; t++) lg[t] = half_value(logits[t]);
    const float most = tree(lg, [](float a, float b) { return std::isnan(a) || b > a ? b : a; });
    for (uint32_t t = 0; t < choice.experts; t++) {
        e[t] = static_cast<float>(std::exp(static_cast<double>(lg[t] - most)));
    }
    const float total = tree(e, add);
    std::vector<float> work = lg;
    for (uint32_t t = 0; choice.resident != nullptr && t < choice.experts; t++) {
        work[t] = lg[t] + (choice.resident[t] != 0 ? choice.eps : 0.0f);
    }
    float sum = 0.0f;
    for (uint32_t k = 0; k < choice.top_k; k++) {
        std::vector<float> value = work;
        std::vector<int32_t> index(kThreads);
        for (size_t t = 0; t < kThreads; t++) index[t] = static_cast<int32_t>(t);
        for (size_t s = kThreads / 2; s > 0; s /= 2) {
            for (size_t t = 0; t < s; t++) {
                if (!(value[t + s] > value[t])) continue;
                value[t] = value[t + s];
                index[t] = index[t + s];
            }
        }
        inds[k] = index[0];
        work[static_cast<size_t>(index[0])] = -INFINITY;
        scores[k] = nearest(e[static_cast<size_t>(inds[k])] / total);
        sum = half_value(nearest(sum + half_value(scores[k])));
    }
    for (uint32_t k = 0; k < choice.top_k; k++) scores[k] = nearest(half_value(scores[k]) / sum);
}

class RandomRows {
  public:
    RandomRows(const Target &target, uint64_t seed) : target_(target), random_(seed) {}

    // What differs first within `expert_rows` logits at least; nothing if nothing does.
    std::optional<std::string> compare(size_t expert_rows) {
        for (size_t done = 0; done < expert_rows;) {
            const uint32_t rows = 1 + below(19), experts = 8 * (1 + below(32)), hidden = 512 * (1 + below(2));
            const bool wild = below(2) != 0;
            const GateBytes gate = make_gate(hidden, experts, wild);
            std::vector<uint16_t> x(size_t{rows} * hidden);
            for (uint16_t &half : x) half = wild ? any_finite() : nearest(normal_(random_));
            if (wild && below(2) != 0) x[below(static_cast<uint32_t>(x.size()))] = special();
            const std::string where = "M=" + std::to_string(rows) + " E=" + std::to_string(experts) +
                                      " H=" + std::to_string(hidden) + (wild ? " wild" : " dense");
            std::vector<uint16_t> logits = target_logits(gate, x, rows);
            for (uint32_t m = 0; m < rows; m++) {
                std::vector<float> row(hidden);
                for (uint32_t c = 0; c < hidden; c++) row[c] = half_value(x[size_t{m} * hidden + c]);
                for (uint32_t expert = 0; expert < experts; expert++) {
                    const uint16_t want = scalar_logit(gate, row, expert);
                    const uint16_t got = logits[size_t{m} * experts + expert];
                    if (!same(got, want)) {
                        return where + ": logit of row " + std::to_string(m) + ", expert " +
                               std::to_string(expert) + ": " + std::to_string(got) + " instead of " +
                               std::to_string(want);
                    }
                }
                if (below(2) != 0) adversarial(&logits[size_t{m} * experts], experts);
                if (auto told = compare_choice(&logits[size_t{m} * experts], experts)) return where + *told;
            }
            done += size_t{rows} * experts;
        }
        return {};
    }

  private:
    uint32_t below(uint32_t limit) { return std::uniform_int_distribution<uint32_t>(0, limit - 1)(random_); }
    uint16_t any_finite() {
        const auto bits = static_cast<uint16_t>(below(1 << 16));
        return (bits & 0x7c00) == 0x7c00 ? bits & 0x8fff : bits;
    }
    uint16_t special() {
        constexpr uint16_t kSpecial[] = {0x7c00, 0xfc00, 0x7e00, 0x8000};
        return kSpecial[below(4)];
    }
    GateBytes make_gate(uint32_t hidden, uint32_t experts, bool wild) {
        GateBytes gate{hidden, experts, {}, {}, {}};
        gate.weight.resize(size_t{experts} * hidden);
        for (uint8_t &byte : gate.weight) byte = static_cast<uint8_t>(below(256));
        for (size_t i = 0; i < size_t{experts} * (hidden / 64); i++) {
            const float scale = 0.001f * (1.0f + std::fabs(normal_(random_)));
            gate.scales.push_back(wild ? any_finite() : nearest(scale));
            gate.biases.push_back(wild ? any_finite() : nearest(-128.0f * scale));
        }
        return gate;
    }

    std::vector<uint16_t> target_logits(const GateBytes &gate, const std::vector<uint16_t> &x,
                                        uint32_t rows) {
        const uint32_t groups = (gate.experts + target_.width - 1) / target_.width;
        const size_t group_bytes = size_t{target_.width} * gate.hidden;
        const size_t group_pairs = size_t{target_.width} * (gate.hidden / 64) * 2;
        std::vector<uint8_t> weight(groups * group_bytes);
        std::vector<uint16_t> pairs(groups * group_pairs);
        for (uint32_t group = 0; group < groups; group++) {
            target_.pack_group(gate.weight.data(), gate.scales.data(), gate.biases.data(), gate.hidden,
                               gate.experts, group * target_.width, &weight[group * group_bytes],
                               &pairs[group * group_pairs]);
        }
        std::vector<float> converted(rows * metal::vector::floats_per_row(gate.hidden));
        target_.convert(x.data(), gate.hidden, rows, converted.data());
        std::vector<uint16_t> logits(size_t{rows} * gate.experts, 0xbeef);
        const uint32_t middle = below(groups + 1);  // as two threads share them
        const metal::vector::PackedGate packed{weight.data(), pairs.data(), gate.hidden, gate.experts};
        target_.logits(packed, converted.data(), rows, middle, groups, logits.data());
        target_.logits(packed, converted.data(), rows, 0, middle, logits.data());
        return logits;
    }

    // Ties, zeros of both signs, infinities, NaN, subnormals; or every logit the same.
    void adversarial(uint16_t *logits, uint32_t experts) {
        std::vector<uint16_t> values(1 + below(6));
        for (uint16_t &value : values) value = below(3) != 0 ? any_finite() : special();
        const bool subnormal = below(4) == 0, few = below(2) != 0;
        for (uint32_t e = 0; e < experts; e++) {
            if (few || below(4) == 0) logits[e] = values[below(static_cast<uint32_t>(values.size()))];
            if (subnormal) logits[e] &= 0x83ff;
        }
    }

    std::optional<std::string> compare_choice(const uint16_t *logits, uint32_t experts) {
        std::vector<int32_t> resident(experts);
        for (int32_t &flag : resident) flag = static_cast<int32_t>(below(2));
        constexpr float kEps[] = {1e-3f, 0.5f, 1e4f};
        const uint32_t top_k = 1 + below(std::min(experts, below(8) == 0 ? experts : 32u));
        const Choice choice{experts, top_k, below(2) != 0 ? resident.data() : nullptr, kEps[below(3)]};
        std::vector<int32_t> inds(top_k, -1), want_inds(top_k);
        std::vector<uint16_t> scores(top_k, 0xbeef), want_scores(top_k);
        target_.choose(logits, choice, inds.data(), scores.data());
        scalar_choice(logits, choice, want_inds.data(), want_scores.data());
        for (uint32_t k = 0; k < top_k; k++) {
            if (inds[k] == want_inds[k] && same(scores[k], want_scores[k])) continue;
            return " K=" + std::to_string(top_k) + (choice.resident != nullptr ? " bias" : "") + ": choice " +
                   std::to_string(k) + ": expert " + std::to_string(inds[k]) + " score " +
                   std::to_string(scores[k]) + " instead of expert " + std::to_string(want_inds[k]) +
                   " score " + std::to_string(want_scores[k]);
        }
        return {};
    }

    const Target &target_;
    std::mt19937_64 random_;
    std::normal_distribution<float> normal_;
};

}  // namespace qwisp::test
