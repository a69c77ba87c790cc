#include "route/gate.h"

#include <stdexcept>

#include "route/limits.h"

namespace qwisp {

std::shared_ptr<Gate> Gate::create(std::shared_ptr<Context> context, int64_t experts, int64_t hidden,
                                   std::span<const std::byte> weight, std::span<const std::byte> scales,
                                   std::span<const std::byte> biases) {
    if (!context) throw std::invalid_argument("context: null");
    check_gate_shape(hidden, experts);
    const size_t weight_bytes = size_t(experts * hidden);
    const size_t group_bytes = weight_bytes / kQuantGroup * sizeof(uint16_t);
    check_exact_length("weight", weight.size(), weight_bytes, "[experts, hidden] uint8");
    check_exact_length("scales", scales.size(), group_bytes, "[experts, hidden / 64] float16");
    check_exact_length("biases", biases.size(), group_bytes, "[experts, hidden / 64] float16");

    std::shared_ptr<Gate> gate(new Gate);
    gate->experts_ = uint32_t(experts);
    gate->hidden_ = uint32_t(hidden);
    gate->weight_ = new_private_buffer(context->queue(), weight.data(), weight.size(), "gate.weight");
    gate->scales_ = new_private_buffer(context->queue(), scales.data(), scales.size(), "gate.scales");
    gate->biases_ = new_private_buffer(context->queue(), biases.data(), biases.size(), "gate.biases");
    gate->context_ = std::move(context);
    return gate;
}

}  // namespace qwisp
