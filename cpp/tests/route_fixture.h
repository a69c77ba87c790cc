// A device, small gates and rows for the route tests. QWISP_DEVICE picks the device, "cpu" if unset.
#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "route/devices.h"
#include "route/encode.h"
#include "route/errors.h"
#include "route/router.h"

namespace qwisp::test {

using Halfs = std::vector<uint16_t>;  // float16 bits
using Ints = std::vector<int32_t>;

inline std::shared_ptr<Context> context() {
    static const auto shared = [] {
        const char *wanted = std::getenv("QWISP_DEVICE");
        for (const DeviceEntry &entry : available_devices()) {
            if (entry.kind == (wanted ? wanted : "cpu")) return Context::create(entry.device.get());
        }
        throw std::runtime_error("the device that QWISP_DEVICE asks for is not here");
    }();
    return shared;
}

// float16 bits of an integer of at most 11 bits.
inline uint16_t half(int value) {
    const uint16_t sign = value < 0 ? 0x8000 : 0;
    unsigned magnitude = unsigned(std::abs(value)), exponent = 0;
    if (magnitude == 0) return sign;
    while (magnitude >> (exponent + 1)) ++exponent;
    return uint16_t(sign | (exponent + 15) << 10 | ((magnitude << 10 >> exponent) & 0x3ff));
}

struct Layer {
    int64_t hidden, experts;
    std::vector<std::byte> weight;
    Halfs scales, biases;

    std::shared_ptr<Gate> gate() const {
        return Gate::create(context(), experts, hidden, weight, std::as_bytes(std::span(scales)),
                            std::as_bytes(std::span(biases)));
    }
};

// Any float16 from 2^-low to 2^-high in magnitude.
inline uint16_t random_half(std::mt19937 &random, int low, int high) {
    const int exponent = 15 - low + int(random() % unsigned(low - high));
    return uint16_t((random() & 0x83ff) | unsigned(exponent) << 10);
}

inline Layer random_layer(int64_t hidden, int64_t experts, uint32_t seed) {
    std::mt19937 random(seed);
    Layer layer{hidden, experts, std::vector<std::byte>(size_t(hidden * experts)),
                Halfs(size_t(hidden * experts / 64)), Halfs(size_t(hidden * experts / 64))};
    for (auto &b : layer.weight) b = std::byte(random());
    for (auto &s : layer.scales) s = random_half(random, 12, 9);
    for (auto &b : layer.biases) b = random_half(random, 6, 3);
    return layer;
}

inline Halfs random_rows(int64_t rows, int64_t hidden, uint32_t seed) {
    std::mt19937 random(seed);
    Halfs x(size_t(rows * hidden));
    for (auto &v : x) v = random_half(random, 4, 0);
    return x;
}

// CONTRACT section 8: one-hot rows and a gate whose biases are the logits wanted, logits[row][expert].
inline Layer planted_layer(const std::vector<Halfs> &logits, int64_t hidden = 512) {
    const auto experts = int64_t(logits[0].size());
    Layer layer{hidden, experts, std::vector<std::byte>(size_t(hidden * experts)),
                Halfs(size_t(hidden * experts / 64)), Halfs(size_t(hidden * experts / 64))};
    for (size_t row = 0; row < logits.size(); ++row) {
        for (size_t e = 0; e < size_t(experts); ++e)
            layer.biases[e * size_t(hidden / 64) + row] = logits[row][e];
    }
    return layer;
}
inline Halfs planted_rows(size_t rows, int64_t hidden = 512) {
    Halfs x(rows * size_t(hidden));
    for (size_t row = 0; row < rows; ++row) x[row * size_t(hidden) + 64 * row] = half(1);
    return x;
}

struct Routed {
    Ints inds;
    Halfs scores, logits;
    bool operator==(const Routed &) const = default;
};

inline Routed run(Router &router, const Halfs &x, const HostBias *bias = nullptr, bool logits = true) {
    const int64_t rows = int64_t(x.size()) / router.gate()->hidden();
    Routed out{Ints(size_t(rows * router.top_k())), Halfs(size_t(rows * router.top_k())),
               Halfs(logits ? size_t(rows * router.gate()->experts()) : 0)};
    RouterInput input{.rows = rows, .x = std::as_bytes(std::span(x)), .bias = {}, .fuse = {}};
    if (bias) input.bias = *bias;
    RouterOutput output{
        std::as_writable_bytes(std::span(out.inds)), std::as_writable_bytes(std::span(out.scores)), {}};
    if (logits) output.logits = std::as_writable_bytes(std::span(out.logits));
    router.route(input, output);
    return out;
}

template <typename T>
std::vector<T> read(MTL::Buffer *buffer, size_t count) {
    std::vector<T> out(count);
    read_buffer(context()->queue(), buffer, out.data(), count * sizeof(T));
    return out;
}

template <typename T>
BufferPtr upload(const std::vector<T> &values, const char *label) {
    return new_shared_buffer(context()->device(), values.data(), values.size() * sizeof(T), label);
}

template <typename Error, typename F>
std::string message(F f) {
    try {
        f();
    } catch (const Error &e) {
        return e.what();
    }
    return "no error";
}

inline bool mentions(const std::string &text, std::initializer_list<const char *> words) {
    for (const char *word : words) {
        if (text.find(word) == std::string::npos) {
            MESSAGE("'" << text << "' does not mention '" << word << "'");
            return false;
        }
    }
    return true;
}

}  // namespace qwisp::test
