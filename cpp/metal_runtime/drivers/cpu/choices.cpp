#include "choices.h"

#include <algorithm>

namespace qwisp::simt {

SeededChoices::SeededChoices(uint64_t seed) : seed_(seed), random_(mix(seed)) {
    chances_.fill(kAllAlike);
    const auto one_of = [this](std::initializer_list<uint32_t> chances) {
        return chances.begin()[random_.below(static_cast<uint32_t>(chances.size()))];
    };
    const auto chance = [this](Choice kind) -> uint32_t & { return chances_[static_cast<size_t>(kind)]; };
    // With 0 a thread that waits for another threadgroup keeps it waiting: Metal promises no progress.
    chance(Choice::preempt) = one_of({256, 128, 32, 8, 0});
    chance(Choice::leave) = one_of({64, 16, 4});
    if (chance(Choice::preempt) == 0) chance(Choice::leave) = 64;
    chance(Choice::stale) = one_of({224, 128, 32});
    chance(Choice::hold) = one_of({240, 128, 32});
    chance(Choice::settle) = one_of({64, 8, 1});
}

uint32_t SeededChoices::of(Choice kind, uint32_t n) {
    if (n < 2) return 0;
    const uint32_t chance = chances_[static_cast<size_t>(kind)];
    if (chance == kAllAlike) return random_.below(n);
    return random_.below(256) < chance ? 1 + random_.below(n - 1) : 0;
}

uint32_t ExploredChoices::of(Choice, uint32_t n) {
    if (n < 2) return 0;
    if (at_ == made_.size()) made_.push_back({0, std::min(n, kMostOptions)});
    return std::min(made_[at_++].choice, n - 1);
}

bool ExploredChoices::next() {
    made_.resize(std::min(made_.size(), at_));
    at_ = 0;
    for (; !made_.empty(); made_.pop_back()) {
        Made &last = made_.back();
        if (last.choice > 0) departures_--;
        if (last.choice + 1 < last.options && departures_ < bound_) {
            last.choice++;
            departures_++;
            return true;
        }
    }
    return false;
}

std::string ExploredChoices::name() const {
    std::string name = "choices";
    for (size_t i = 0; i < at_; i++) {
        if (made_[i].choice == 0) continue;
        name.append(" ").append(std::to_string(i)).append(":").append(std::to_string(made_[i].choice));
    }
    return name;
}

}  // namespace qwisp::simt
