#include "route/scratch.h"

#include <algorithm>
#include <stdexcept>

#include "route/limits.h"

namespace qwisp {

std::shared_ptr<RouteScratch> RouteScratch::create(std::shared_ptr<Context> context, int64_t rows,
                                                   int64_t experts, int64_t top_k) {
    if (!context) throw std::invalid_argument("context: null");
    check_scratch_shape(rows, experts, top_k);
    const size_t chosen = size_t(rows * top_k), all = size_t(rows * experts);

    std::shared_ptr<RouteScratch> scratch(new RouteScratch);
    MTL::Device *device = context->device();
    scratch->rows_ = uint32_t(rows);
    scratch->experts_ = uint32_t(experts);
    scratch->top_k_ = uint32_t(top_k);
    scratch->inds_ = new_working_buffer(device, chosen * sizeof(int32_t), "scratch.inds");
    scratch->scores_ = new_working_buffer(device, chosen * sizeof(uint16_t), "scratch.scores");
    scratch->logits_ = new_working_buffer(device, all * sizeof(uint16_t), "scratch.logits");
    scratch->arrivals_ = new_working_buffer(device, size_t(rows) * sizeof(uint32_t), "scratch.arrivals");
    scratch->words_ = new_working_buffer(device, all * sizeof(uint32_t), "scratch.words");
    scratch->context_ = std::move(context);
    return scratch;
}

std::shared_ptr<RouteScratch> RouteScratch::with_results(uint32_t rows, BufferPtr inds, BufferPtr scores,
                                                         BufferPtr logits) const {
    std::shared_ptr<RouteScratch> other(new RouteScratch(*this));
    other->rows_ = std::min(rows_, rows);
    other->inds_ = std::move(inds);
    other->scores_ = std::move(scores);
    if (logits) other->logits_ = std::move(logits);
    return other;
}

void RouteScratch::reset() {
    MTL::Buffer *const buffers[] = {arrivals_.get(), words_.get()};
    fill_buffers(context_->queue(), buffers, std::byte{0});
}

}  // namespace qwisp
