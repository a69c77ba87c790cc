#include "adversary.h"

#include <algorithm>
#include <utility>

namespace qwisp::simt {

namespace {

// Fibres under way: two mappings each, of the 65530 that Linux gives a process by default.
constexpr uint64_t kMostThreads = 2048;

using Idle = std::vector<std::unique_ptr<Threadgroup>>;

// Stacks are worth keeping. Null after the end of the calling thread's thread-local objects.
Idle *idle_of_this_thread() {
    thread_local Idle *idle = nullptr;
    thread_local bool ended = false;
    struct Cleanup {
        ~Cleanup() {
            delete std::exchange(idle, nullptr);
            ended = true;
        }
    };
    if (idle == nullptr && !ended) {
        idle = new Idle;
        thread_local const Cleanup cleanup;
    }
    return idle;
}

// Slots whose memory an argument of the kernel may write, under whatever name.
uint32_t watched_slots(const Launch &launch) {
    uint32_t watched = 0;
    const FunctionImage &function = *launch.function;
    for (uint32_t w = 0; w < function.argument_count; w++) {
        if (!function.arguments[w].writes) continue;
        const Region &written = launch.arguments[function.arguments[w].slot];
        for (uint32_t slot = 0; slot < kMaxSlots; slot++) {
            const Region &region = launch.arguments[slot];
            if (region.base < written.base + written.length && written.base < region.base + region.length) {
                watched |= 1u << slot;
            }
        }
    }
    return watched;
}

}  // namespace

Adversary::Adversary(Launch &launch)
    : launch_(launch), memory_(*launch.choices), watched_(watched_slots(launch)) {}

Adversary::~Adversary() {
    for (auto &group : under_way_) {
        group->end();
        keep(std::move(group));
    }
}

void Adversary::keep(std::unique_ptr<Threadgroup> group) noexcept {
    Idle *const idle = idle_of_this_thread();
    if (idle != nullptr && idle->size() < idle->capacity()) idle->push_back(std::move(group));
}

void Adversary::start(uint64_t linear) {
    Idle *const idle = idle_of_this_thread();
    std::unique_ptr<Threadgroup> group;
    if (idle != nullptr && !idle->empty()) {
        group = std::move(idle->back());
        idle->pop_back();
    } else {
        group = std::make_unique<Threadgroup>();
    }
    if (idle != nullptr) idle->reserve(idle->size() + under_way_.size() + 1);  // for keep()
    under_way_.push_back(std::move(group));
    under_way_.back()->start(launch_, linear, &memory_, watched_);
}

std::string Adversary::run() {
    Choices &choices = *launch_.choices;
    const uint64_t count = launch_.groups[0] * launch_.groups[1] * launch_.groups[2];
    const uint64_t threads = kMostThreads >> choices.of(Choice::crowd, 4);
    const size_t most = std::max<size_t>(2, threads / launch_.threads);
    const Permutation order(count, choices.seed());
    for (uint64_t started = 0;;) {
        while (started < count && under_way_.size() < most) start(order(started++));
        if (under_way_.empty()) break;
        const uint32_t chosen = choices.of(Choice::group, static_cast<uint32_t>(under_way_.size()));
        std::rotate(under_way_.begin() + chosen, under_way_.begin() + chosen + 1, under_way_.end());
        Threadgroup &group = *under_way_.back();
        if (!group.go_on()) continue;
        std::string fault = group.end();
        if (!fault.empty()) return fault;
        keep(std::move(under_way_.back()));
        under_way_.pop_back();
    }
    memory_.finish();
    return {};
}

}  // namespace qwisp::simt
