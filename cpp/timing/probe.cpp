#include "timing/probe.h"

#include <stdexcept>
#include <string>

namespace qwisp::timing {
namespace {

constexpr int64_t kMost = 16384;
constexpr int64_t kSlice = 256;  // bytes: no two dispatches share a cache line

}  // namespace

DispatchProbe::DispatchProbe(std::shared_ptr<Context> context, int64_t most)
    : context_(std::move(context)), most_(most) {
    if (!context_) throw std::invalid_argument("context: null");
    if (most < 1 || most > kMost) {
        throw std::invalid_argument("most: " + std::to_string(most) + ", but it must be from 1 to " +
                                    std::to_string(kMost));
    }
    MTL::Device *device = context_->device();
    ids_ = new_working_buffer(device, size_t(most * kSlice), "probe.ids");
    logits_ = new_working_buffer(device, size_t(most * kSlice), "probe.logits");
    source_ = new_working_buffer(device, size_t(kSlice), "probe.source");  // zeros: id 0 becomes id 0
    copy_ = &context_->pipeline(Kernel::diag_copy_route);
    remap_ = &context_->pipeline(Kernel::slot_remap_rows);
}

void DispatchProbe::encode(MTL::ComputeCommandEncoder *encoder, Work work, int64_t index) const {
    const auto offset = NS::UInteger(index * kSlice);
    if (work == Work::empty) {
        const DiagArgs args{0, 0};
        encoder->setComputePipelineState(copy_->state.get());
        encoder->setBuffer(source_.get(), 0, kDiagInds);
        encoder->setBuffer(source_.get(), 0, kDiagLogits);
        encoder->setBuffer(ids_.get(), offset, kDiagIndsOut);
        encoder->setBuffer(logits_.get(), offset, kDiagLogitsOut);
        encoder->setBytes(&args, sizeof args, kDiagArgs);
    } else {
        const RemapArgs args{1, 1};
        encoder->setComputePipelineState(remap_->state.get());
        encoder->setBuffer(ids_.get(), offset, kRemapInds);
        encoder->setBuffer(source_.get(), 0, kRemapTable);
        encoder->setBytes(&args, sizeof args, kRemapArgs);
    }
    encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(kSimdWidth, 1, 1));
}

ProbeSample DispatchProbe::run(Work work, Order order, int64_t dispatches) {
    if (dispatches < 1 || dispatches > most_) {
        throw std::invalid_argument("dispatches: " + std::to_string(dispatches) +
                                    ", but it must be from 1 to " + std::to_string(most_));
    }
    const Submitted submitted =
        submit(*context_, order != Order::serial, [&](MTL::ComputeCommandEncoder *encoder) {
            for (int64_t i = 0; i < dispatches; ++i) {
                if (order == Order::barriers && i > 0) encoder->memoryBarrier(MTL::BarrierScopeBuffers);
                encode(encoder, work, i);
            }
        });
    const int64_t completed = finish(submitted);
    return {gpu_stamps(submitted.commands.get()), completed - submitted.committed_ns};
}

}  // namespace qwisp::timing
