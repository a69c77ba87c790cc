#include "route/encode.h"

#include <stdexcept>
#include <string>

namespace qwisp {
namespace {

using Encoder = MTL::ComputeCommandEncoder;

[[noreturn]] void refuse(const std::string &message) { throw std::invalid_argument(message); }

void check_buffer(const char *argument, const MTL::Buffer *buffer, uint64_t needed, const char *meaning) {
    if (!buffer) refuse(std::string(argument) + ": null");
    check_length(argument, buffer->length(), needed, meaning);
}

// "rows: the scratch has 4, the plan 8"
void check_number(const char *argument, const char *owner, uint64_t found, uint64_t planned) {
    if (found == planned) return;
    refuse(std::string(argument) + ": the " + owner + " has " + std::to_string(found) + ", the plan " +
           std::to_string(planned));
}

void check_presence(const char *argument, bool given, bool planned) {
    if (given == planned) return;
    refuse(std::string(argument) + (given ? ": given, but the plan was made without it"
                                          : ": missing, but the plan was made with it"));
}

void check_scratch(const RoutePlan &plan, const RouteScratch *scratch) {
    if (!scratch) refuse("scratch: null");
    if (scratch->context() != plan.context) refuse("scratch: of another context than the plan");
    check_number("experts", "scratch", scratch->experts(), uint64_t(plan.request.shape.experts));
    check_number("top_k", "scratch", scratch->top_k(), uint64_t(plan.request.shape.top_k));
    if (scratch->rows() < plan.request.shape.rows) {
        refuse("rows: " + std::to_string(plan.request.shape.rows) + ", but the scratch has room for " +
               std::to_string(scratch->rows()));
    }
}

void check_gate(const RoutePlan &plan, const Gate *gate) {
    if (!gate) refuse("gate: null");
    if (gate->context() != plan.context) refuse("gate: of another context than the plan");
    check_number("hidden", "gate", gate->hidden(), uint64_t(plan.request.shape.hidden));
    check_number("experts", "gate", gate->experts(), uint64_t(plan.request.shape.experts));
}

void check_x(const RoutePlan &plan, const RouteOperands &operands) {
    const uint32_t alignment = x_alignment(plan.variant);
    if (operands.x_offset % alignment != 0) {
        refuse("x_offset: " + std::to_string(operands.x_offset) + ", but it must be a multiple of " +
               std::to_string(alignment) + " (variant '" + variant_name(plan.variant) + "')");
    }
    const auto bytes = uint64_t(plan.request.shape.rows * plan.request.shape.hidden) * sizeof(uint16_t);
    if (operands.x && operands.x_offset > operands.x->length()) refuse("x_offset: beyond the end of x");
    check_buffer("x", operands.x, operands.x_offset + bytes, "float16 [rows, hidden] from x_offset on");
}

void check_extras(const RoutePlan &plan, const RouteOperands &operands) {
    const RouteRequest &request = plan.request;
    const auto experts = uint64_t(request.shape.experts);
    const bool biased = operands.bias && bias_applies(operands.bias->eps);
    check_presence("bias", biased, request.bias);
    if (biased) {
        check_buffer("bias.resident", operands.bias->resident, experts * sizeof(int32_t), "int32 [experts]");
    }
    check_presence("diag", operands.diag, request.diag.has_value());
    if (operands.diag) {
        const RouteDiag &diag = *operands.diag;
        if (diag_copy(request.shape, diag.place) != *request.diag)
            refuse("diag: the plan was made for another place");
        if (!diag.inds) refuse("diag.inds: null");
        if (!diag.logits) refuse("diag.logits: null");
        check_diag_lengths(*request.diag, diag.inds->length(), diag.logits->length());
    }
    check_presence("remap", operands.remap, request.remap);
    if (operands.remap) {
        if (operands.remap->length < request.shape.experts || operands.remap->length > INT32_MAX) {
            refuse("remap.length: " + std::to_string(operands.remap->length) +
                   ", but it must be from experts, " + std::to_string(experts) + ", to 2^31 - 1");
        }
        check_buffer("remap.table", operands.remap->table, uint64_t(operands.remap->length) * sizeof(int32_t),
                     "int32 [length]");
    }
}

template <typename Args>
void set_args(Encoder *encoder, const Args &args, uint32_t slot) {
    encoder->setBytes(&args, sizeof args, slot);
}

// Whole buffers in neighbouring slots, in one message.
template <size_t N>
void set_buffers(Encoder *encoder, const MTL::Buffer *const (&buffers)[N], uint32_t first) {
    static constexpr NS::UInteger kStarts[N] = {};
    encoder->setBuffers(buffers, kStarts, NS::Range(first, N));
}

// The slots of a gate's three buffers are neighbours in every kernel that reads one.
static_assert(kQmmScales == kQmmWeight + 1 && kQmmBiases == kQmmWeight + 2 && kQmmLogits == kQmmWeight + 3);
static_assert(kFusedScales == kFusedWeight + 1 && kFusedBiases == kFusedWeight + 2 &&
              kFusedInds == kFusedWeight + 3 && kFusedScoresOut == kFusedWeight + 4);
static_assert(kTopkInds == kTopkLogits + 1 && kTopkScores == kTopkLogits + 2);
static_assert(kFusedWords == kFusedArrivals + 1);

void dispatch(Encoder *encoder, const RouteStep &step) {
    encoder->dispatchThreadgroups(step.groups, step.threads);
}

void encode_qmm(Encoder *encoder, const RoutePlan &plan, const RouteStep &step,
                const RouteOperands &operands) {
    const Gate &gate = *operands.gate;
    encoder->setComputePipelineState(step.pipeline->state.get());
    encoder->setBuffer(operands.x, operands.x_offset, kQmmX);
    set_buffers(encoder, {gate.weight(), gate.scales(), gate.biases(), operands.scratch->logits()},
                kQmmWeight);
    set_args(encoder, QmmArgs{uint32_t(plan.request.shape.hidden), uint32_t(plan.request.shape.experts)},
             kQmmArgs);
    dispatch(encoder, step);
}

void encode_topk(Encoder *encoder, const RoutePlan &plan, const RouteStep &step,
                 const RouteOperands &operands) {
    const RouteScratch &scratch = *operands.scratch;
    const bool biased = plan.request.bias;
    encoder->setComputePipelineState(step.pipeline->state.get());
    set_buffers(encoder, {scratch.logits(), scratch.inds(), scratch.scores()}, kTopkLogits);
    set_args(encoder,
             TopkArgs{uint32_t(plan.request.shape.experts), uint32_t(plan.request.shape.top_k),
                      biased ? operands.bias->eps : 0.0f},
             kTopkArgs);
    if (biased) encoder->setBuffer(operands.bias->resident, 0, kTopkResident);
    dispatch(encoder, step);
}

void encode_fused(Encoder *encoder, const RouteStep &step, const RouteOperands &operands) {
    const Gate &gate = *operands.gate;
    const RouteScratch &scratch = *operands.scratch;
    const bool biased = step.constants.use_bias;
    encoder->setComputePipelineState(step.pipeline->state.get());
    encoder->setBuffer(operands.x, operands.x_offset, kFusedX);
    set_buffers(encoder, {gate.weight(), gate.scales(), gate.biases(), scratch.inds(), scratch.scores()},
                kFusedWeight);
    set_args(encoder, FusedArgs{biased ? operands.bias->eps : 0.0f}, kFusedArgs);
    if (step.constants.write_logits) encoder->setBuffer(scratch.logits(), 0, kFusedLogits);
    if (biased) encoder->setBuffer(operands.bias->resident, 0, kFusedResident);
    if (step.kernel != Kernel::route_fused_rows_single) {
        set_buffers(encoder, {scratch.arrivals(), scratch.words()}, kFusedArrivals);
    }
    dispatch(encoder, step);
}

void encode_diag(Encoder *encoder, const RoutePlan &plan, const RouteStep &step,
                 const RouteOperands &operands) {
    const DiagCopy &copy = *plan.request.diag;
    encoder->setComputePipelineState(step.pipeline->state.get());
    encoder->setBuffer(operands.scratch->inds(), 0, kDiagInds);
    encoder->setBuffer(operands.scratch->logits(), 0, kDiagLogits);
    encoder->setBuffer(operands.diag->inds, copy.inds_offset, kDiagIndsOut);
    encoder->setBuffer(operands.diag->logits, copy.logits_offset, kDiagLogitsOut);
    set_args(encoder, DiagArgs{copy.inds_count, copy.logits_count}, kDiagArgs);
    dispatch(encoder, step);
}

void encode_remap(Encoder *encoder, const RoutePlan &plan, const RouteStep &step,
                  const RouteOperands &operands) {
    const RouteShape &shape = plan.request.shape;
    encoder->setComputePipelineState(step.pipeline->state.get());
    encoder->setBuffer(operands.scratch->inds(), 0, kRemapInds);
    encoder->setBuffer(operands.remap->table, 0, kRemapTable);
    set_args(encoder, RemapArgs{uint32_t(shape.rows * shape.top_k), uint32_t(operands.remap->length)},
             kRemapArgs);
    dispatch(encoder, step);
}

void encode_step(Encoder *encoder, const RoutePlan &plan, const RouteStep &step,
                 const RouteOperands &operands) {
    switch (step.kernel) {
        case Kernel::qmm8_rows:
        case Kernel::qmm8_rows_split:
            return encode_qmm(encoder, plan, step, operands);
        case Kernel::route_top8_rows:
        case Kernel::route_top8_rows_bias:
        case Kernel::route_top8_rows_wide:
            return encode_topk(encoder, plan, step, operands);
        case Kernel::route_fused_rows_single:
        case Kernel::route_fused_rows_last:
        case Kernel::route_fused_rows_split:
            return encode_fused(encoder, step, operands);
        case Kernel::diag_copy_route:
            return encode_diag(encoder, plan, step, operands);
        case Kernel::slot_remap_rows:
            return encode_remap(encoder, plan, step, operands);
    }
}

}  // namespace

RouteRequest route_request(const RouteOperands &operands, int64_t rows, Fuse fuse, bool logits) {
    if (!operands.gate) refuse("gate: null");
    if (!operands.scratch) refuse("scratch: null");
    RouteRequest request;
    request.shape = {rows, operands.gate->hidden(), operands.gate->experts(), operands.scratch->top_k()};
    request.fuse = fuse;
    request.bias = operands.bias && bias_applies(operands.bias->eps);
    request.logits = logits;
    if (operands.diag) request.diag = diag_copy(request.shape, operands.diag->place);
    request.remap = operands.remap != nullptr;
    return request;
}

void encode_moe_route_rows(MTL::ComputeCommandEncoder *encoder, const RoutePlan &plan,
                           const RouteOperands &operands) {
    if (!encoder) refuse("encoder: null");
    if (!plan.context) refuse("plan: not resolved on a device");
    check_gate(plan, operands.gate);
    check_scratch(plan, operands.scratch);
    check_x(plan, operands);
    check_extras(plan, operands);

    const bool concurrent = encoder->dispatchType() == MTL::DispatchTypeConcurrent;
    const RouteStep *first = plan.steps.data();
    for (const RouteStep &step : plan.steps) {
        // Every step reads or overwrites what the step before it wrote.
        if (concurrent && &step != first) encoder->memoryBarrier(MTL::BarrierScopeBuffers);
        encode_step(encoder, plan, step, operands);
    }
}

}  // namespace qwisp
