// Two threads that touch one place of a threadgroup array with no barrier between them, one of them writing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "image.h"

namespace qwisp::simt {

// A thread of the threadgroup, and how many barriers that order the memory in question it has behind it.
struct Moment {
    uint32_t thread = 0;
    uint32_t barriers = 0;            // threadgroup_barriers
    uint32_t simdgroup_barriers = 0;  // of its simdgroup
};

// Whether program order or a barrier puts `earlier` before `later`.
inline bool ordered(const Moment &earlier, const Moment &later) {
    return earlier.thread == later.thread || earlier.barriers < later.barriers ||
           (earlier.thread / kLanes == later.thread / kLanes &&
            earlier.simdgroup_barriers < later.simdgroup_barriers);
}

struct ArrayConflict {
    uint32_t thread;  // the one that came first
    bool writes, atomic;
};

// One array. Places are as large as its elements, or as the smallest access that was seen.
class ArrayRaces {
  public:
    void reset(size_t bytes, size_t alignment);
    std::optional<ArrayConflict> access(const Moment &now, bool writes, bool atomic, size_t offset,
                                        size_t size);

  private:
    // Of the accesses since the last threadgroup_barrier as many as tell whether any later one conflicts: two
    // of one simdgroup, by different threads and since its last barrier, and one of another simdgroup.
    struct Recent {
        uint32_t count = 0;
        Moment moments[3];

        const Moment *conflict(const Moment &now) const;
        void note(const Moment &now);
    };
    struct Place {
        Recent reads, writes;
    };

    std::optional<ArrayConflict> access_one(const Moment &now, bool writes, bool atomic, size_t place);
    void split(size_t size);

    std::vector<Place> plain_, atomic_;  // atomic_: empty until there is one
    size_t place_size_ = 4;
};

}  // namespace qwisp::simt
