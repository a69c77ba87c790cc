#include "timing/workload.h"

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

#include "route/commands.h"

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

uint64_t hash_of(const uint16_t *rows, size_t count) {
    return std::hash<std::string_view>{}({reinterpret_cast<const char *>(rows), count * sizeof *rows});
}

}  // namespace

void fill_rows(std::span<uint16_t> x, uint64_t seed) {
    Random random(seed);
    for (uint16_t &each : x) each = half(random, -4, 5);
}

Workload::Workload(const std::shared_ptr<Context> &context, const WorkloadOptions &options, const Fill &fill)
    : context_(context), options_(options) {
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
    std::vector<uint16_t> rows(count);
    for (int64_t i = 0; i < options.x_sets; ++i) {
        std::fill(rows.begin(), rows.end(), uint16_t{0});
        fill(rows, seeds());
        x_.push_back(new_working_buffer(context->queue(), rows.data(), count * sizeof(uint16_t), "timing.x"));
        read_buffer(context->queue(), x_.back().get(), rows.data(), count * sizeof(uint16_t));
        x_hashes_.push_back(hash_of(rows.data(), count));
    }
    if (qwisp::is_visible(scratch(0, 0).inds())) return;
    size_t length = 0;
    for (const MTL::Buffer *buffer : result_buffers(0)) length += buffer->length();
    staging_ = new_shared_buffer(context->device(), length, "timing.results");
}

uint64_t Workload::x_hash(int64_t set) const {
    const auto *const now = contents<uint16_t>(x(set));
    return now ? hash_of(now, size_t(options_.shape.rows * options_.shape.hidden)) : x_hashes_[size_t(set)];
}

std::vector<MTL::Buffer *> Workload::result_buffers(int64_t slot) const {
    std::vector<MTL::Buffer *> buffers;
    for (int64_t layer = 0; layer < options_.layers; ++layer) {
        buffers.push_back(scratch(slot, layer).inds());
        buffers.push_back(scratch(slot, layer).scores());
    }
    return buffers;
}

void Workload::fill_results(int64_t slot, std::byte value) const {
    fill_buffers(context_->queue(), result_buffers(slot), value);
}

std::vector<std::byte> Workload::results(int64_t slot) const {
    const std::vector<MTL::Buffer *> buffers = result_buffers(slot);
    const auto chosen = size_t(options_.shape.rows * options_.shape.top_k);
    const size_t lengths[] = {chosen * sizeof(int32_t), chosen * sizeof(uint16_t)};
    std::vector<BufferCopy> copies;
    size_t staged = 0;
    for (size_t i = 0; staging_ && i < buffers.size(); ++i) {
        copies.push_back({buffers[i], staging_.get(), lengths[i % 2], staged});
        staged += buffers[i]->length();
    }
    if (staging_) {
        AutoreleaseScope pool;
        MTL::CommandBuffer *const commands = new_commands(context_->queue());
        encode_copies(commands, copies);
        complete(commands);
    }
    std::vector<std::byte> bytes;
    bytes.reserve(buffers.size() / 2 * (lengths[0] + lengths[1]));
    for (size_t i = 0; i < buffers.size(); ++i) {
        const auto *const first = staging_ ? contents<std::byte>(staging_.get()) + copies[i].to_offset
                                           : contents<std::byte>(buffers[i]);
        bytes.insert(bytes.end(), first, first + lengths[i % 2]);
    }
    return bytes;
}

}  // namespace qwisp::timing
