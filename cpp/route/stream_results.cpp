#include "route/stream_results.h"

#include <algorithm>
#include <stdexcept>

#include "metal_runtime/software_device.h"
#include "route/errors.h"

namespace qwisp {
namespace {

constexpr size_t kMostFree = 64;          // of all streams
constexpr uint32_t kMostFreeRows = 4096;  // a rare giant call does not keep its memory
constexpr uint32_t kSmallest = 32;        // rows: decode and verification share it

}  // namespace

void throw_if(const std::string &failure) {
    if (!failure.empty()) throw DeviceError(failure);
}

StreamResults::StreamResults(std::shared_ptr<Context> context, uint32_t rows, uint32_t experts,
                             uint32_t top_k, bool with_logits)
    : context_(std::move(context)), streams_(*metal::streams_of(context_->device())), rows_(rows) {
    const auto buffer = [&](size_t columns, size_t size, const char *label) {
        return new_working_buffer(context_->device(), rows * columns * size, label);
    };
    inds_ = buffer(top_k, sizeof(int32_t), "results.inds");
    scores_ = buffer(top_k, sizeof(uint16_t), "results.scores");
    if (with_logits) logits_ = buffer(experts, sizeof(uint16_t), "results.logits");
}

void StreamResults::hand_to(metal::Stream other) {
    const std::lock_guard lock(mutex_);
    metal::StreamState here, there;
    throw_if(streams_.inspect(other, &there));
    if (there.id == state_.id && (!there.capturing || other == stream_)) return;
    throw_if(streams_.inspect(stream_, &here));
    // What is captured cannot wait for what is not, nor the other way round.
    const bool captured_now =
        state_.capturing && here.id == state_.id && (!there.capturing || there.id == state_.id);
    if ((here.capturing || there.capturing) && !captured_now) {
        throw std::invalid_argument(
            "stream: a graph is being captured, but this array was made outside of that capture; hand it "
            "over "
            "before the capture");
    }
    if (here.id != state_.id) {  // no mark can be made there
        throw_if(streams_.finish_all());
    } else {
        std::unique_ptr<metal::Mark> written;
        throw_if(streams_.mark(stream_, &written));
        throw_if(streams_.wait(other, *written));
    }
    const auto is_there = [&](const Handed &each) { return each.id == there.id; };
    if (std::none_of(handed_.begin(), handed_.end(), is_there)) handed_.push_back({other, there.id});
}

void StreamResults::finish() {
    const std::lock_guard lock(mutex_);
    metal::StreamState here;
    throw_if(streams_.inspect(stream_, &here));
    if (here.capturing) {
        throw std::runtime_error(
            "numpy: the array's stream is capturing a graph; read it after the capture, and after a replay");
    }
    // A graph may be replayed on any stream.
    throw_if(state_.capturing || here.id != state_.id ? streams_.finish_all() : streams_.finish(stream_));
}

std::unique_ptr<StreamResults> StreamPool::find(uint64_t stream, uint32_t rows, bool with_logits) {
    const std::lock_guard lock(mutex_);
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        const StreamResults &each = **it;
        if (each.state_.id != stream || each.rows_ < rows || bool(each.logits_) != with_logits) continue;
        if (best == free_.end() || each.rows_ < (*best)->rows_) best = it;
    }
    if (best == free_.end()) return nullptr;
    auto found = std::move(*best);
    free_.erase(best);
    return found;
}

std::shared_ptr<StreamResults> StreamPool::take(metal::Stream stream, const metal::StreamState &state,
                                                uint32_t rows, uint32_t experts, uint32_t top_k,
                                                bool with_logits) {
    std::unique_ptr<StreamResults> results;
    if (!state.capturing) results = find(state.id, rows, with_logits);
    if (!results) {
        results =
            std::make_unique<StreamResults>(context_, std::max(rows, kSmallest), experts, top_k, with_logits);
    }
    for (const auto &mark : results->marks_) throw_if(results->streams_.wait(stream, *mark));
    results->marks_.clear();
    results->stream_ = stream;
    results->state_ = state;
    return {results.release(), [pool = shared_from_this()](StreamResults *given) {
                pool->give(std::unique_ptr<StreamResults>(given));
            }};
}

// Called by whoever drops an array last: any thread, with or without the interpreter, at its end too.
void StreamPool::give(std::unique_ptr<StreamResults> results) noexcept {
    try {
        bool known = true;
        for (const auto &[other, id] : results->handed_) {
            metal::StreamState state;
            std::unique_ptr<metal::Mark> mark;
            known = known && results->streams_.inspect(other, &state).empty() && state.id == id &&
                    !state.capturing && results->streams_.mark(other, &mark).empty();
            if (mark) results->marks_.push_back(std::move(mark));
        }
        results->handed_.clear();
        std::unique_ptr<StreamResults> dropped;  // freed without the lock
        const std::lock_guard lock(mutex_);
        if (results->state_.capturing || !known) {
            parked_.push_back(std::move(results));
        } else if (results->rows_ > kMostFreeRows) {
            dropped = std::move(results);
        } else {
            free_.push_back(std::move(results));
            if (free_.size() > kMostFree) {
                dropped = std::move(free_.front());
                free_.erase(free_.begin());
            }
        }
    } catch (...) {  // no memory for the books: `results` is freed, which waits for the device
    }
}

}  // namespace qwisp
