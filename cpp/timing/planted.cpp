#include "timing/planted.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace qwisp::timing {
namespace {

using Encoder = MTL::ComputeCommandEncoder;

void encode_as_pair(Encoder *encoder, const Job &job) {
    RouteRequest request = job.plan.request;
    request.fuse = Fuse::pair;
    encode_moe_route_rows(encoder, plan_route(job.plan.context, request), job.operands);
}

void encode_other_gate(Encoder *encoder, const Job &job) {
    const RouteShape &shape = job.plan.request.shape;
    const std::vector<std::byte> weight(size_t(shape.experts * shape.hidden));
    const std::vector<std::byte> groups(weight.size() / kQuantGroup * sizeof(uint16_t));
    const auto gate = Gate::create(job.plan.context, shape.experts, shape.hidden, weight, groups, groups);
    RouteOperands operands = job.operands;
    operands.gate = gate.get();
    encode_moe_route_rows(encoder, job.plan, operands);
}

void encode_twice(Encoder *encoder, const Job &job) {
    encode_moe_route_rows(encoder, job.plan, job.operands);
    if (encoder->dispatchType() == MTL::DispatchTypeConcurrent) {
        encoder->memoryBarrier(MTL::BarrierScopeBuffers);
    }
    encode_moe_route_rows(encoder, job.plan, job.operands);
}

}  // namespace

Parts planted(std::string_view fault) {
    Parts parts;
    const auto at_fault = [&](void (*wrong)(Encoder *, const Job &)) {
        parts.encode = [wrong, right = parts.encode](Encoder *encoder, const Job &job) {
            job.arm == 0 ? right(encoder, job) : wrong(encoder, job);
        };
    };
    if (fault == "ignored flag") {
        at_fault(encode_as_pair);
    } else if (fault == "wrong output") {
        at_fault(encode_other_gate);
    } else if (fault == "extra dispatch") {
        at_fault(encode_twice);
    } else if (fault == "no-op prefill") {
        parts.fill = [](std::span<uint16_t>, uint64_t) {};
    } else if (fault == "frozen clock") {
        parts.stamps = [](const MTL::CommandBuffer *) { return GpuStamps{1.0, 1.0}; };
    } else if (!fault.empty()) {
        throw std::invalid_argument("planted: no fault is called '" + std::string(fault) + "'");
    }
    return parts;
}

}  // namespace qwisp::timing
