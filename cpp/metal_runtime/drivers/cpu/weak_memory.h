// Device memory as the threadgroups of one dispatch see it: as late and as little in order as Metal allows.
// docs/reliability.md says what this model reorders and what it does not.
//
// Atomic words keep their history: a store may be kept back by its thread, and a load may find any value that
// is not older than what its thread has seen there. Everything else is one value, because two accesses that
// nothing orders are reported as a race if one of them is not atomic and one of them writes.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "array_races.h"
#include "choices.h"

namespace qwisp::simt {

// A thread of the dispatch and where it is.
struct Party {
    uint64_t group;  // its threadgroup, counted along the grid
    Moment now;
};
struct DeviceConflict {
    Party with;  // who came first
    bool writes, atomic;
};

class WeakMemory {
  public:
    explicit WeakMemory(Choices &choices) : choices_(choices) {}

    // Addresses are the host's. A plain access moves no data: on success the memory is up to date for it.
    std::optional<DeviceConflict> plain(const Party &who, uintptr_t address, size_t size, bool writes);
    void written(uintptr_t address, size_t size);  // after a plain write
    std::optional<DeviceConflict> atomic(const Party &who, uintptr_t address, AtomicOp op, uint32_t operand,
                                         uint32_t *before);
    // All threads of a group have met at a threadgroup_barrier with mem_device.
    void barrier(uint64_t group);
    // atomic_thread_fence with mem_device and thread_scope_device.
    void fence(const Party &who, bool acquire, bool release);
    void settle();  // time passes
    void finish();  // the end of the dispatch

  private:
    using Id = uint64_t;  // of a thread, or with kWhole of a threadgroup
    static constexpr uint32_t kWhole = UINT32_MAX >> 1;
    static Id id_of(uint64_t group, uint32_t thread) { return group << 32 | thread; }
    static uint64_t group_of(Id id) { return id >> 32; }

    // What a fence has made known: a group's accesses before that many barriers, a thread's before that many
    // of its fences.
    struct Clock {
        std::map<uint64_t, uint32_t> groups;
        std::map<Id, uint32_t> threads;
        void join(const Clock &other);
    };
    struct Published {
        Clock clock;
        uint64_t time = 0;  // nothing that was overwritten before is seen by those who know of it
        void join(const Published &other);
    };
    using Publication = std::shared_ptr<const Published>;

    struct Record {
        Party who;
        uint32_t fences;  // release fences of the thread before it
        uint8_t bytes;    // of the word
        bool writes, atomic;
    };
    struct Message {
        uint32_t value;
        uint64_t time;
        Publication publication;
    };
    struct View {
        Id who;
        size_t oldest;  // message that it may still find
        uint32_t repeats = 0;
    };
    struct Word {
        std::vector<Record> records;    // that later accesses may conflict with
        std::vector<Message> messages;  // in order; empty: no atomic access yet
        std::vector<View> views;
        uint32_t held = 0;
    };
    struct Held {
        uintptr_t address;
        Word *word;
        Id owner;
        uint32_t value;
        Publication publication;
    };
    struct Knowledge {          // of a thread or a threadgroup
        Published known;        // by fences that acquire
        Published read;         // with atomic loads, since: what the next such fence makes known
        Publication published;  // by the last fence that releases
        uint32_t fences = 0;    // that release
    };

    std::optional<DeviceConflict> check(Word &word, const Record &record);
    bool ordered_by_fences(const Record &earlier, const Party &who) const;
    void begin_history(Word &word, uintptr_t address);
    View &view(Word &word, Id who);
    size_t oldest_for(const Word &word, const Party &who) const;
    bool sees(const Held &held, const Party &who) const;
    const Held *last_held(const Word &word, const Party &who) const;
    void commit(size_t held);
    void commit_seen(Word &word, const Party &who);
    void append(Word &word, uintptr_t address, Id owner, uint32_t value, Publication publication);
    uint32_t load(Word &word, const Party &who);
    void learn(const Party &who, const Message &message);
    Publication published_by(const Party &who) const;

    Choices &choices_;
    std::unordered_map<uintptr_t, Word> words_;
    std::vector<Held> held_;
    std::unordered_map<Id, Knowledge> knowledge_;                // empty in a kernel without fences
    std::unordered_map<uint64_t, std::vector<Word *>> touched_;  // atomically, since the group's last barrier
    uint64_t time_ = 0;
};

}  // namespace qwisp::simt
