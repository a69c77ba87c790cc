// Accesses and barriers of a threadgroup that shares the device with others.
#include "fault.h"
#include "threadgroup.h"

namespace qwisp::simt {

namespace {

std::string kind_of(bool writes, bool atomic) {
    return std::string(atomic ? "atomic " : "") + (writes ? "write" : "read");
}

}  // namespace

Moment Threadgroup::Barriers::now(const Thread &thread) const {
    return {thread.index, whole, simdgroups[thread.simdgroup]};
}

Party Threadgroup::party() const { return {linear_, device_barriers_.now(*current_)}; }

void Threadgroup::race(const Access &access, bool writes, bool atomic, const std::string &with,
                       bool with_writes, bool with_atomic) {
    fault("race: " + std::to_string(access.size) + "-byte " + kind_of(writes, atomic) + " at byte offset " +
          std::to_string(access.offset) + " of " + name_of(*access.region) +
          ", and nothing orders it and the " + kind_of(with_writes, with_atomic) + " by " + with);
}

void Threadgroup::watch(const Access &access, bool writes) {
    if (access.region->shadow != nullptr) return watch_array(access, writes, false);
    preempt();
    const auto address = reinterpret_cast<uintptr_t>(access.region->base) + access.offset;
    if (auto conflict = memory_model_->plain(party(), address, access.size, writes)) {
        race(access, writes, false, name_of(conflict->with), conflict->writes, conflict->atomic);
    }
}

uint32_t Threadgroup::watch_atomic(const Access &access, AtomicOp op, uint32_t operand) {
    preempt();
    const auto address = reinterpret_cast<uintptr_t>(access.region->base) + access.offset;
    uint32_t before = 0;
    if (auto conflict = memory_model_->atomic(party(), address, op, operand, &before)) {
        race(access, op != AtomicOp::load, true, name_of(conflict->with), conflict->writes, conflict->atomic);
    }
    return before;
}

void Threadgroup::watch_array(const Access &access, bool writes, bool atomic) {
    if (atomic) preempt();
    ArrayRaces &races = races_[static_cast<size_t>(access.region - arrays_.data())];
    const Moment now = array_barriers_.now(*current_);
    if (auto conflict = races.access(now, writes, atomic, access.offset, access.size)) {
        race(access, writes, atomic, "thread " + std::to_string(conflict->thread), conflict->writes,
             conflict->atomic);
    }
}

void Threadgroup::note_barrier(Rendezvous kind, uint32_t flags, uint32_t simdgroup) {
    const bool whole = kind == Rendezvous::threadgroup_barrier;
    const auto note = [&](Barriers &barriers) {
        (whole ? barriers.whole : barriers.simdgroups[simdgroup])++;
    };
    if (flags & kMemThreadgroup) note(array_barriers_);
    if (!(flags & kMemDevice)) return;
    note(device_barriers_);
    if (whole) memory_model_->barrier(linear_);
}

void Threadgroup::fence(uint32_t flags, bool acquire, bool release) {
    if (memory_model_ == nullptr || !(flags & kMemDevice)) return;
    preempt();
    memory_model_->fence(party(), acquire, release);
}

}  // namespace qwisp::simt
