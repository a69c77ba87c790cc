// Every vector target against the contract in plain loops: expert-rows of all kinds. The gates do the same
// against the shaders; this runs where Python does not, as under an emulator.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "metal_runtime/drivers/cpu/msl_types.h"
#include "metal_runtime/drivers/cpu/vector/targets.h"

using namespace qwisp::metal;
using qwisp::simt::float_to_half_bits;
using qwisp::simt::half_bits_to_float;

namespace {

using Random = std::mt19937;
using Halves = std::vector<uint16_t>;

struct Case {
    std::string what;
    uint32_t rows, experts, hidden, top_k;
    Halves x, scales, biases;
    std::vector<uint8_t> weight;
    std::vector<int32_t> resident;  // empty: no bias
    float eps = 0;
};

struct Answer {
    Halves logits, scores;
    std::vector<int32_t> inds;
};

uint32_t below(Random &random, uint32_t limit) { return static_cast<uint32_t>(random() % limit); }

// Contract, section 2.
float result_of(const Case &c, uint32_t row, uint32_t expert) {
    float lanes[32];
    for (uint32_t lane = 0; lane < 32; lane++) {
        float result = 0;
        for (uint32_t k = 0; k < c.hidden; k += 256) {
            float sum = 0, accum = 0;
            for (uint32_t column = k + 8 * lane; column < k + 8 * lane + 8; column++) {
                const float x = half_bits_to_float(c.x[row * c.hidden + column]);
                sum = sum + x;
                accum = accum + x * static_cast<float>(c.weight[expert * c.hidden + column]);
            }
            const uint32_t group = expert * (c.hidden / 64) + (k + 8 * lane) / 64;
            const float product = half_bits_to_float(c.scales[group]) * accum;
            const float shift = sum * half_bits_to_float(c.biases[group]);
            result = result + (product + shift);
        }
        lanes[lane] = result;
    }
    for (uint32_t s = 16; s > 0; s /= 2) {
        for (uint32_t lane = 0; lane < s; lane++) lanes[lane] = lanes[lane] + lanes[lane + s];
    }
    return lanes[0];
}

template <typename Op>
void tree(const Op &op) {
    for (int s = 128; s > 0; s /= 2) {
        for (int t = 0; t < s; t++) op(t, t + s);
    }
}

// Sections 3 and 4.
void choose(const Case &c, const uint16_t *logits, int32_t *inds, uint16_t *scores) {
    float lg[256], work[256], most[256], e[256], sum[256];
    for (uint32_t t = 0; t < 256; t++) {
        lg[t] = t < c.experts ? half_bits_to_float(logits[t]) : -INFINITY;
        const bool biased = !c.resident.empty() && t < c.experts;
        work[t] = biased ? lg[t] + (c.resident[t] != 0 ? c.eps : 0.0f) : lg[t];
        most[t] = lg[t];
    }
    tree([&](int a, int b) { most[a] = std::fmax(most[a], most[b]); });
    for (uint32_t t = 0; t < 256; t++) {
        e[t] = t < c.experts ? static_cast<float>(std::exp(static_cast<double>(lg[t] - most[0]))) : 0.0f;
        sum[t] = e[t];
    }
    tree([&](int a, int b) { sum[a] = sum[a] + sum[b]; });
    uint16_t total = 0;
    for (uint32_t k = 0; k < c.top_k; k++) {
        float value[256];
        int32_t slot[256];
        for (int t = 0; t < 256; t++) {
            value[t] = work[t];
            slot[t] = t;
        }
        tree([&](int a, int b) {
            if (!(value[b] > value[a])) return;
            value[a] = value[b];
            slot[a] = slot[b];
        });
        inds[k] = slot[0];
        work[slot[0]] = -INFINITY;
        scores[k] = float_to_half_bits(e[slot[0]] / sum[0]);
        total = float_to_half_bits(half_bits_to_float(total) + half_bits_to_float(scores[k]));
    }
    for (uint32_t k = 0; k < c.top_k; k++) {
        scores[k] = float_to_half_bits(half_bits_to_float(scores[k]) / half_bits_to_float(total));
    }
}

Answer plain(const Case &c) {
    Answer out{Halves(c.rows * c.experts), Halves(c.rows * c.top_k), std::vector<int32_t>(c.rows * c.top_k)};
    for (uint32_t row = 0; row < c.rows; row++) {
        for (uint32_t e = 0; e < c.experts; e++) {
            out.logits[row * c.experts + e] = float_to_half_bits(result_of(c, row, e));
        }
        choose(c, &out.logits[row * c.experts], &out.inds[row * c.top_k], &out.scores[row * c.top_k]);
    }
    return out;
}

Answer of(const vector::Target &target, const Case &c) {
    const uint32_t groups = (c.experts + target.width - 1) / target.width;
    const size_t group_weights = size_t{target.width} * c.hidden, group_pairs = group_weights / 32;
    const std::unique_ptr<uint8_t, decltype(&std::free)> weight(
        static_cast<uint8_t *>(std::aligned_alloc(64, groups * group_weights)), std::free);
    const std::unique_ptr<uint16_t, decltype(&std::free)> pairs(
        static_cast<uint16_t *>(std::aligned_alloc(64, groups * group_pairs * 2)), std::free);
    const std::unique_ptr<float, decltype(&std::free)> x(
        static_cast<float *>(
            std::aligned_alloc(64, c.rows * vector::floats_per_row(c.hidden) * sizeof(float))),
        std::free);
    for (uint32_t group = 0; group < groups; group++) {
        target.pack_group(c.weight.data(), c.scales.data(), c.biases.data(), c.hidden, c.experts,
                          group * target.width, weight.get() + group * group_weights,
                          pairs.get() + group * group_pairs);
    }
    Answer out{Halves(c.rows * c.experts), Halves(c.rows * c.top_k), std::vector<int32_t>(c.rows * c.top_k)};
    target.convert(c.x.data(), c.hidden, c.rows, x.get());
    const vector::PackedGate gate{weight.get(), pairs.get(), c.hidden, c.experts};
    target.logits(gate, x.get(), c.rows, 0, groups / 2, out.logits.data());
    target.logits(gate, x.get(), c.rows, groups / 2, groups, out.logits.data());
    const vector::Choice choice{c.experts, c.top_k, c.resident.empty() ? nullptr : c.resident.data(), c.eps};
    for (uint32_t row = 0; row < c.rows; row++) {
        target.choose(&out.logits[row * c.experts], choice, &out.inds[row * c.top_k],
                      &out.scores[row * c.top_k]);
    }
    return out;
}

bool same(const Halves &a, const Halves &b) {  // a NaN is a NaN
    const auto is_nan = [](uint16_t bits) { return (bits & 0x7fff) > 0x7c00; };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](uint16_t left, uint16_t right) {
        return left == right || (is_nan(left) && is_nan(right));
    });
}

uint16_t any_half(Random &random) {
    const auto bits = static_cast<uint16_t>(random());
    return (bits & 0x7c00) == 0x7c00 ? bits & 0x8fff : bits;
}

// Kinds: like a model's; every exponent, with infinities and NaN; few values, so that most logits tie.
Case some(Random &random) {
    Case c;
    c.rows = 1 + below(random, 17);
    c.experts = 8 * (1 + below(random, 32));
    c.hidden = 512 * (1 + below(random, 2));
    c.top_k = 1 + below(random, std::min(c.experts, 32u));
    const uint32_t kind = below(random, 3);
    std::normal_distribution<float> normal;
    const auto value = [&](float spread) { return float_to_half_bits(spread * normal(random)); };
    c.what = std::to_string(kind) + ": M=" + std::to_string(c.rows) + " E=" + std::to_string(c.experts) +
             " H=" + std::to_string(c.hidden) + " K=" + std::to_string(c.top_k);
    c.weight.resize(size_t{c.experts} * c.hidden);
    c.x.resize(size_t{c.rows} * c.hidden);
    c.scales.resize(c.weight.size() / 64);
    c.biases.resize(c.weight.size() / 64);
    for (uint8_t &weight : c.weight) weight = static_cast<uint8_t>(kind == 2 ? 0 : random());
    for (uint16_t &x : c.x) x = kind == 1 ? any_half(random) : value(1.0f);
    for (uint16_t &scale : c.scales) scale = kind == 1 ? any_half(random) : value(1e-3f);
    constexpr uint16_t kFew[] = {0, 0x3c00, 0x0001, 0x8001};
    for (uint16_t &bias : c.biases) {
        bias = kind == 1 ? any_half(random) : kind == 0 ? value(0.1f) : kFew[below(random, 4)];
    }
    if (kind == 1) {
        constexpr uint16_t kSpecial[] = {0x7c00, 0xfc00, 0x7e00, 0x8000, 0};
        for (uint32_t i = 0; i < c.rows / 2; i++) c.x[random() % c.x.size()] = kSpecial[below(random, 5)];
    }
    if (kind ==
        2) {  // one column of each row counts: the logit is a multiple of a bias, often a zero of a sign
        constexpr uint16_t kOne[] = {0x3c00, 0x3c00, 0x0001, 0xfc00};
        std::fill(c.x.begin(), c.x.end(), uint16_t{0});
        for (uint32_t row = 0; row < c.rows; row++) {
            c.x[row * c.hidden + 64 * below(random, c.hidden / 64)] = kOne[below(random, 4)];
        }
    }
    if (below(random, 2)) {
        c.resident.resize(c.experts);
        for (int32_t &each : c.resident) each = static_cast<int32_t>(below(random, 2));
        c.eps = below(random, 2) ? 0.25f : 1e4f;
    }
    return c;
}

}  // namespace

TEST_CASE("vector: a hundred thousand expert-rows are those of plain loops, on every target") {
    Random random(20);
    for (uint32_t done = 0; done < 100'000;) {
        const Case c = some(random);
        const Answer want = plain(c);
        for (const vector::Target *target : vector::targets()) {
            CAPTURE(std::string(target->name));
            CAPTURE(c.what);
            CAPTURE(done);
            const Answer got = of(*target, c);
            REQUIRE(same(got.logits, want.logits));
            REQUIRE(got.inds == want.inds);
            REQUIRE(same(got.scores, want.scores));
        }
        done += c.rows * c.experts;
    }
}
