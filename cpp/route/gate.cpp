#include "route/gate.h"

#include <stdexcept>
#include <string>

#include "route/limits.h"

namespace qwisp {
namespace {

void check_bytes(const char *argument, size_t found, size_t needed, const char *meaning) {
    if (found == needed) return;
    throw std::invalid_argument(std::string(argument) + ": " + std::to_string(found) +
                                " bytes, but it must be " + std::to_string(needed) + " (" + meaning + ")");
}

}  // namespace

std::shared_ptr<Gate> Gate::create(std::shared_ptr<Context> context, int64_t experts, int64_t hidden,
                                   std::span<const std::byte> weight, std::span<const std::byte> scales,
                                   std::span<const std::byte> biases) {
    if (!context) throw std::invalid_argument("context: null");
    check_gate_shape(hidden, experts);
    const size_t weight_bytes = size_t(experts * hidden);
    const size_t group_bytes = weight_bytes / kQuantGroup * sizeof(uint16_t);
    check_bytes("weight", weight.size(), weight_bytes, "[experts, hidden] uint8");
    check_bytes("scales", scales.size(), group_bytes, "[experts, hidden / 64] float16");
    check_bytes("biases", biases.size(), group_bytes, "[experts, hidden / 64] float16");

    std::shared_ptr<Gate> gate(new Gate);
    MTL::Device *device = context->device();
    gate->experts_ = uint32_t(experts);
    gate->hidden_ = uint32_t(hidden);
    gate->weight_ = new_shared_buffer(device, weight.data(), weight.size(), "gate.weight");
    gate->scales_ = new_shared_buffer(device, scales.data(), scales.size(), "gate.scales");
    gate->biases_ = new_shared_buffer(device, biases.data(), biases.size(), "gate.biases");
    gate->context_ = std::move(context);
    return gate;
}

}  // namespace qwisp
