#include "route/stream_router.h"

#include <algorithm>
#include <stdexcept>

#include "metal_runtime/software_device.h"
#include "route/commands.h"
#include "route/outcome.h"

namespace qwisp {
namespace {

constexpr size_t kMostStreams = 16;
constexpr int64_t kSmallest = 32;        // rows
constexpr uint32_t kLargestKept = 4096;  // rows: a rare giant call does not keep its memory

std::shared_ptr<void> shared(BufferPtr buffer) { return std::make_shared<BufferPtr>(std::move(buffer)); }

metal::Streams &streams_of(const std::shared_ptr<Context> &context) {
    metal::Streams *const streams = metal::streams_of(context->device());
    if (!streams) throw std::invalid_argument("router: its device has no streams");
    return *streams;
}

}  // namespace

StreamRouter::StreamRouter(std::shared_ptr<Router> router)
    : router_(std::move(router)),
      context_(router_->gate()->context()),
      streams_(streams_of(context_)),
      pool_(std::make_shared<StreamPool>(context_)) {}

StreamRouter::~StreamRouter() { finish(); }

std::shared_ptr<RouteScratch> StreamRouter::new_scratch(int64_t rows) const {
    return RouteScratch::create(context_, std::max(rows, kSmallest), router_->gate()->experts(),
                                router_->top_k());
}

void StreamRouter::keep(metal::Stream stream, std::shared_ptr<void> what) {
    std::unique_ptr<metal::Mark> mark;
    throw_if(streams_.mark(stream, &mark));
    kept_.push_back({std::move(mark), std::move(what)});
}

// The scratch of a stream that is forgotten may be in use: freeing it waits for the device.
StreamRouter::Work &StreamRouter::work_of(const StreamInput &input, const metal::StreamState &state) {
    const auto is_it = [&](const Work &each) { return each.stream == state.id; };
    const auto found = std::find_if(works_.begin(), works_.end(), is_it);
    if (found != works_.end()) {
        std::rotate(found, found + 1, works_.end());
    } else {
        if (works_.size() == kMostStreams) {
            if (!state.capturing) streams_.finish_all();
            works_.erase(works_.begin());
        }
        works_.push_back({state.id, nullptr, {}});
    }
    Work &work = works_.back();
    if (!work.scratch || work.scratch->rows() < input.rows) work.scratch = new_scratch(input.rows);
    return work;
}

std::shared_ptr<StreamResults> StreamRouter::route(const StreamInput &input) {
    const bool biased = input.bias && bias_applies(input.bias->eps);
    auto plan = router_->kept_plan(input.rows, biased, input.logits);
    if (input.rows > 0 && input.x % x_alignment(plan->variant) != 0) {
        if (plan->request.fuse != Fuse::automatic) {
            throw std::invalid_argument(std::string("x: its address is no multiple of ") +
                                        std::to_string(x_alignment(plan->variant)) + ", as the variant '" +
                                        variant_name(plan->variant) + "' needs it; copy it, or use another");
        }
        plan = router_->kept_plan(input.rows, biased, input.logits, Fuse::pair);
    }
    const Gate &gate = *router_->gate();
    AutoreleaseScope autoreleased;

    const std::lock_guard lock(mutex_);
    metal::StreamState state;
    throw_if(streams_.inspect(input.stream, &state));
    auto results = pool_->take(input.stream, state, uint32_t(input.rows), gate.experts(), router_->top_k(),
                               input.logits);
    if (input.rows == 0) return results;

    Work captured{state.id, nullptr, {}};
    if (state.capturing) captured.scratch = new_scratch(input.rows);
    Work &work = state.capturing ? captured : work_of(input, state);
    const auto scratch =
        work.scratch->with_results(results->rows(), results->inds(), results->scores(), results->logits());
    const BufferPtr x = NS::TransferPtr(metal::new_foreign_buffer(
        context_->device(), input.x, size_t(input.rows) * gate.hidden() * sizeof(uint16_t)));
    const RouteBias bias{biased ? input.bias->resident.get() : nullptr, biased ? input.bias->eps : 0.0f};
    MTL::CommandBuffer *const commands = compute_commands(
        context_->queue(), MTL::DispatchTypeSerial, [&](MTL::ComputeCommandEncoder *encoder) {
            encode_moe_route_rows(
                encoder, *plan,
                {.x = x.get(), .gate = &gate, .scratch = scratch.get(), .bias = biased ? &bias : nullptr});
        });
    if (state.capturing) {  // before the graph has it, also if the rest fails
        captured_.push_back(captured.scratch);
        captured_.push_back(results);
        if (biased) captured_.push_back(shared(input.bias->resident));
        metal::commit_on_stream(commands, input.stream);
        throw_if_failed(commands);
        return results;
    }
    try {
        metal::commit_on_stream(commands, input.stream);
        throw_if_failed(commands);
        if (input.keep) keep(input.stream, input.keep);
        if (biased && work.resident != input.bias->resident) {
            if (work.resident) keep(input.stream, shared(std::move(work.resident)));
            work.resident = input.bias->resident;
        }
        if (work.scratch->rows() > kLargestKept) keep(input.stream, std::move(work.scratch));
    } catch (...) {  // half a route may be on the stream, and what it reads is let go now
        streams_.finish(input.stream);
        works_.pop_back();
        throw;
    }
    return results;
}

void StreamRouter::finish() {
    const std::lock_guard lock(mutex_);
    for (const Kept &each : kept_) each.until->wait();
    streams_.finish_all();  // what the streams' working memory is used for
}

std::vector<std::shared_ptr<void>> StreamRouter::done() {
    std::vector<std::shared_ptr<void>> passed;
    const std::lock_guard lock(mutex_);
    const auto is_waiting = [](const Kept &each) { return !each.until->passed(); };
    const auto first = std::stable_partition(kept_.begin(), kept_.end(), is_waiting);
    for (auto it = first; it != kept_.end(); ++it) passed.push_back(std::move(it->what));
    kept_.erase(first, kept_.end());
    return passed;
}

}  // namespace qwisp
