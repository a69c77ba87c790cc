// Hazards in a concurrent encoder: two dispatches with no barrier between them, of which one writes what the
// other reads or writes.
//
// What a kernel reads and writes is known by argument, not by address. Two bindings conflict if they start at
// the same offset of the same buffer; bindings of one buffer at different offsets count as slices of it, each
// ending where the next begins. Dispatches that a host lets overlap on purpose work on such slices. An
// overlap of slices is left to the driver, which sees every address.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metal_runtime/device/pipeline.h"

namespace qwisp::metal {

struct Access {
    const Pipeline *pipeline = nullptr;
    const Argument *argument = nullptr;
};

// Who used a slice last; open addressing, because it is asked for each argument of each dispatch.
class AccessTable {
  public:
    struct Entry {
        const Memory *memory = nullptr;
        size_t offset = 0;
        uint32_t epoch = 0;    // of the table when it was made; others are free
        uint32_t barrier = 0;  // that ended it alone, counted from 1
        Access writer, reader;
    };

    AccessTable() : entries_(64) {}
    void make_room(size_t more);  // so that as many calls of at() leave entries where they are
    Entry &at(const Memory *memory, size_t offset);
    const Entry *find(const Memory *memory, size_t offset) const;
    void clear();
    void forget(const Memory *memory);
    void move_to(AccessTable &other, const Memory *memory, uint32_t barrier);

  private:
    Entry &probe(const Memory *memory, size_t offset);

    std::vector<Entry> entries_;  // a power of two of them
    size_t used_ = 0;
    uint32_t epoch_ = 1;
};

class HazardTracker {
  public:
    // The conflict with an earlier dispatch, in words, if there is one.
    std::optional<std::string> dispatch(const Pipeline &pipeline, std::span<const Binding> bindings);

    void barrier();  // for all buffers
    void barrier(std::span<const Memory *const> memories);

    uint64_t barriers() const { return needed_.size(); }
    // Those without which there would have been no conflict either.
    uint64_t superfluous() const;

  private:
    bool all_needed() const;

    AccessTable current_;       // accesses that no barrier has ended
    AccessTable before_;        // accesses that one barrier has ended
    uint32_t last_full_ = 0;    // the last barrier for all buffers
    std::vector<bool> needed_;  // by barrier: a dispatch after it conflicts with one before it
};

}  // namespace qwisp::metal
