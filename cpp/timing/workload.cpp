#include "timing/workload.h"

#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

namespace qwisp::timing {
namespace {

constexpr int64_t kMostLayers = 4096, kMostSets = 1024, kMostGates = 65536, kMostInFlight = 16;

using Random = std::mt19937_64;  // the same numbers on every machine

// A float16 whose magnitude is from 2^low to below 2^(low + count).
uint16_t half(Random &random, int low, int count) {
    const uint64_t bits = random();
    const auto exponent = uint64_t(15 + low) + (bits >> 32) % uint64_t(count);
    return uint16_t((bits & 0x83ff) | exponent << 10);
}

void check_option(const char *name, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return;
    throw std::invalid_argument(std::string(name) + ": " + std::to_string(value) +
                                ", but it must be from 1 to " + std::to_string(most));
}

void check(const WorkloadOptions &options) {
    check_route_shape(options.shape);
    if (options.shape.rows == 0) throw std::invalid_argument("rows: 0, but there must be one to time");
    check_option("layers", options.layers, kMostLayers);
    check_option("x_sets", options.x_sets, kMostSets);
    check_option("blocks", options.blocks, kMostGates / options.layers);
    check_option("in_flight", options.in_flight, kMostInFlight);
}

std::shared_ptr<Gate> random_gate(const std::shared_ptr<Context> &context, const RouteShape &shape,
                                  uint64_t seed) {
    Random random(seed);
    std::vector<uint64_t> weight(size_t(shape.experts * shape.hidden) / sizeof(uint64_t));
    std::vector<uint16_t> scales(size_t(shape.experts * shape.hidden / kQuantGroup)), biases(scales.size());
    for (uint64_t &each : weight) each = random();
    for (uint16_t &each : scales) each = half(random, -12, 3);
    for (uint16_t &each : biases) each = half(random, -6, 3);
    return Gate::create(context, shape.experts, shape.hidden, std::as_bytes(std::span(weight)),
                        std::as_bytes(std::span(scales)), std::as_bytes(std::span(biases)));
}

}  // namespace

void fill_rows(std::span<uint16_t> x, uint64_t seed) {
    Random random(seed);
    for (uint16_t &each : x) each = half(random, -4, 5);
}

Workload::Workload(const std::shared_ptr<Context> &context, const WorkloadOptions &options, const Fill &fill)
    : options_(options) {
    check(options);
    const RouteShape &shape = options.shape;
    Random seeds(options.seed);
    for (int64_t i = 0; i < options.blocks * options.layers; ++i) {
        gates_.push_back(random_gate(context, shape, seeds()));
    }
    for (int64_t i = 0; i < options.in_flight * options.layers; ++i) {
        scratches_.push_back(RouteScratch::create(context, shape.rows, shape.experts, shape.top_k));
    }
    const auto count = size_t(shape.rows * shape.hidden);
    for (int64_t i = 0; i < options.x_sets; ++i) {
        x_.push_back(new_shared_buffer(context->device(), count * sizeof(uint16_t), "timing.x"));
        fill({contents<uint16_t>(x_.back().get()), count}, seeds());
    }
}

uint64_t Workload::x_hash(int64_t set) const {
    const auto length = size_t(options_.shape.rows * options_.shape.hidden) * sizeof(uint16_t);
    return std::hash<std::string_view>{}({contents<char>(x(set)), length});
}

}  // namespace qwisp::timing
