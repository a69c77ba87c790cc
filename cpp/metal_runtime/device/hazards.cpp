#include "metal_runtime/device/hazards.h"

#include <algorithm>
#include <utility>

namespace qwisp::metal {
namespace {

// The earlier access that conflicts with `argument`, if any.
const Access *conflict(const AccessTable::Entry &entry, const Argument &argument) {
    if (entry.writer.pipeline && (argument.reads || argument.writes)) return &entry.writer;
    return argument.writes && entry.reader.pipeline ? &entry.reader : nullptr;
}

std::string describe(const Access &earlier, bool earlier_writes, const Pipeline &later,
                     const Argument &argument, const Binding &binding) {
    return "missing barrier: kernel " + later.name() + " (argument " + argument.name + ") " +
           (argument.reads && earlier_writes ? "reads" : "writes") + " buffer" +
           quoted(binding.memory->label) + " at offset " + std::to_string(binding.offset) +
           ", which kernel " + earlier.pipeline->name() + " (argument " + earlier.argument->name + ") " +
           (earlier_writes ? "writes" : "reads") + ", and no memoryBarrier is between them";
}

}  // namespace

AccessTable::Entry &AccessTable::probe(const Memory *memory, size_t offset) {
    const auto hash =
        (reinterpret_cast<uintptr_t>(memory) >> 4) * 0x9e3779b97f4a7c15u + offset * 0xc2b2ae3d27d4eb4fu;
    size_t i = (hash >> 32) & (entries_.size() - 1);
    while (entries_[i].epoch == epoch_ && (entries_[i].memory != memory || entries_[i].offset != offset)) {
        i = (i + 1) & (entries_.size() - 1);
    }
    return entries_[i];
}

AccessTable::Entry &AccessTable::at(const Memory *memory, size_t offset) {
    Entry &entry = probe(memory, offset);
    if (entry.epoch != epoch_) {
        entry = {memory, offset, epoch_, 0, {}, {}};
        ++used_;
    }
    return entry;
}

const AccessTable::Entry *AccessTable::find(const Memory *memory, size_t offset) const {
    const Entry &entry = const_cast<AccessTable *>(this)->probe(memory, offset);
    return entry.epoch == epoch_ ? &entry : nullptr;
}

void AccessTable::make_room(size_t more) {
    if ((used_ + more) * 2 <= entries_.size()) return;
    const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(entries_.size() * 2));
    for (const Entry &entry : old) {
        if (entry.epoch == epoch_) probe(entry.memory, entry.offset) = entry;
    }
}

void AccessTable::clear() {
    ++epoch_;
    used_ = 0;
}

void AccessTable::forget(const Memory *memory) {
    for (Entry &entry : entries_) {
        if (entry.epoch == epoch_ && entry.memory == memory) entry.writer = entry.reader = {};
    }
}

void AccessTable::move_to(AccessTable &other, const Memory *memory, uint32_t barrier) {
    for (Entry &entry : entries_) {
        if (entry.epoch != epoch_ || entry.memory != memory) continue;
        other.make_room(1);
        Entry &moved = other.at(memory, entry.offset);
        moved.barrier = barrier;
        moved.writer = std::exchange(entry.writer, {});
        moved.reader = std::exchange(entry.reader, {});
    }
}

std::optional<std::string> HazardTracker::dispatch(const Pipeline &pipeline,
                                                   std::span<const Binding> bindings) {
    current_.make_room(pipeline.arguments.size());
    std::array<AccessTable::Entry *, kMaxBuffers> entries;
    bool asks_for_needed = !all_needed();
    for (size_t i = 0; i < pipeline.arguments.size(); ++i) {
        const Argument &argument = pipeline.arguments[i];
        const Binding &binding = bindings[argument.index];
        if (!binding.memory) continue;
        entries[i] = &current_.at(binding.memory, binding.offset);
        if (const Access *const earlier = conflict(*entries[i], argument)) {
            return describe(*earlier, earlier == &entries[i]->writer, pipeline, argument, binding);
        }
        if (!asks_for_needed) continue;
        const auto *const entry = before_.find(binding.memory, binding.offset);
        if (entry && conflict(*entry, argument))
            needed_[(entry->barrier ? entry->barrier : last_full_) - 1] = true;
        asks_for_needed = !all_needed();
    }
    for (size_t i = 0; i < pipeline.arguments.size(); ++i) {  // a dispatch does not conflict with itself
        const Argument &argument = pipeline.arguments[i];
        if (!bindings[argument.index].memory) continue;
        if (argument.writes) entries[i]->writer = {&pipeline, &argument};
        if (argument.reads) entries[i]->reader = {&pipeline, &argument};
    }
    return std::nullopt;
}

void HazardTracker::barrier() {
    std::swap(current_, before_);
    current_.clear();
    needed_.push_back(false);
    last_full_ = uint32_t(needed_.size());
}

void HazardTracker::barrier(std::span<const Memory *const> memories) {
    needed_.push_back(false);
    for (const Memory *const memory : memories) {
        before_.forget(memory);  // two barriers have ended these
        current_.move_to(before_, memory, uint32_t(needed_.size()));
    }
}

// Known without looking for what the last barrier has ended.
bool HazardTracker::all_needed() const {
    if (needed_.empty()) return true;
    const bool for_all = last_full_ == needed_.size();  // it left nothing that an earlier one ended
    return for_all && needed_.back();
}

uint64_t HazardTracker::superfluous() const {
    return uint64_t(std::count(needed_.begin(), needed_.end(), false));
}

}  // namespace qwisp::metal
