#include "array_races.h"

#include <algorithm>

namespace qwisp::simt {

const Moment *ArrayRaces::Recent::conflict(const Moment &now) const {
    for (uint32_t i = 0; i < count; i++) {
        if (!ordered(moments[i], now)) return &moments[i];
    }
    return nullptr;
}

void ArrayRaces::Recent::note(const Moment &now) {
    const Moment &first = moments[0];
    const bool same_simdgroup = count > 0 && first.thread / kLanes == now.thread / kLanes;
    if (count == 0 || first.barriers < now.barriers) {
        moments[0] = now;
        count = 1;
    } else if (same_simdgroup && first.simdgroup_barriers < now.simdgroup_barriers) {
        moments[0] = now;  // what its simdgroup did before can only matter to others
    } else if (first.thread != now.thread) {
        for (uint32_t i = 1; i < count; i++) {
            if ((moments[i].thread / kLanes == first.thread / kLanes) == same_simdgroup) {
                moments[i] = now;
                return;
            }
        }
        moments[count++] = now;
    }
}

std::optional<ArrayConflict> ArrayRaces::access_one(const Moment &now, bool writes, bool atomic,
                                                    size_t place) {
    const auto conflict_with = [&](const Place &earlier,
                                   bool earlier_atomic) -> std::optional<ArrayConflict> {
        if (const Moment *with = earlier.writes.conflict(now))
            return ArrayConflict{with->thread, true, earlier_atomic};
        if (!writes) return {};
        if (const Moment *with = earlier.reads.conflict(now))
            return ArrayConflict{with->thread, false, earlier_atomic};
        return {};
    };
    if (auto conflict = conflict_with(plain_[place], false)) return conflict;
    if (!atomic && !atomic_.empty()) {
        if (auto conflict = conflict_with(atomic_[place], true)) return conflict;
    }
    if (atomic && atomic_.empty()) atomic_.resize(plain_.size());
    Place &noted = atomic ? atomic_[place] : plain_[place];
    (writes ? noted.writes : noted.reads).note(now);
    return {};
}

void ArrayRaces::reset(size_t bytes, size_t alignment) {
    place_size_ = std::min<size_t>(alignment, 4);
    plain_.assign((bytes + place_size_ - 1) / place_size_, Place{});
    atomic_.clear();
}

void ArrayRaces::split(size_t size) {
    for (std::vector<Place> *places : {&plain_, &atomic_}) {
        std::vector<Place> parts;
        for (const Place &place : *places) parts.insert(parts.end(), place_size_ / size, place);
        *places = std::move(parts);
    }
    place_size_ = size;
}

std::optional<ArrayConflict> ArrayRaces::access(const Moment &now, bool writes, bool atomic, size_t offset,
                                                size_t size) {
    if (size < place_size_) split(size);
    for (size_t place = offset / place_size_; place * place_size_ < offset + size; place++) {
        if (auto conflict = access_one(now, writes, atomic, place)) return conflict;
    }
    return {};
}

}  // namespace qwisp::simt
