#include "threadgroup.h"

#include <algorithm>
#include <cstring>

#include "fault.h"

namespace qwisp::simt {

namespace {

bool all_written(const std::byte *shadow, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (shadow[i] != std::byte{0xff}) return false;
    }
    return true;
}

// Words that are NaN as a float and as two halves, and absurd as an index.
void poison(std::byte *memory, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        const auto noise = static_cast<uint32_t>(mix(seed + i));
        const uint32_t word = 0xffc07e00u | (noise & 0x003f01ffu);
        std::memcpy(memory + i, &word, 4);
    }
}

}  // namespace

void Threadgroup::start(Launch &launch, uint64_t linear, WeakMemory *memory, uint32_t watched) {
    launch_ = &launch;
    memory_model_ = memory;
    linear_ = linear;
    image_current_ = launch.image->current();
    for (Region &argument : launch.arguments) argument.budget = launch.limits.accesses;

    ThreadContext context{};
    context.services = this;
    context.arguments = launch.arguments.data();
    if (memory != nullptr) {
        arguments_ = launch.arguments;
        for (uint32_t slot = 0; slot < kMaxSlots; slot++) {
            if ((watched >> slot & 1) == 0) continue;
            arguments_[slot].fast_length = 0;
            arguments_[slot].budget = budget_of(arguments_[slot]);
        }
        context.arguments = arguments_.data();
    }
    context.constants = launch.constants.data();
    context.constants_set = launch.constants_set;
    uint64_t rest = linear;
    for (int d = 0; d < 3; d++) {
        context.group[d] = static_cast<uint32_t>(rest % launch.groups[d]);
        context.groups[d] = static_cast<uint32_t>(launch.groups[d]);
        rest /= launch.groups[d];
    }
    context.simdgroups = (launch.threads + kLanes - 1) / kLanes;
    threads_.resize(launch.threads);
    ready_head_ = ready_count_ = 0;
    for (uint32_t t = 0; t < launch.threads; t++) {
        Thread &thread = threads_[t];
        thread = {};
        static_cast<ThreadContext &>(thread) = context;
        thread.index = t;
        thread.lane = t % kLanes;
        thread.simdgroup = t / kLanes;
        make_ready(thread);
    }
    simdgroups_.fill({});
    whole_ = {};
    finished_ = 0;
    steps_ = 0;
    stopped_ = unwinding_ = false;
    fault_.clear();
    array_count_ = 0;
    array_bytes_ = 0;
    device_barriers_ = array_barriers_ = {};
}

bool Threadgroup::go_on() {
    ThreadContext *const outer = *image_current_;
    run_ready();
    *image_current_ = outer;
    current_ = nullptr;
    return stopped_ || ready_count_ == 0 || !fault_.empty();
}

std::string Threadgroup::end() {
    if (finished_ < threads_.size()) {
        if (fault_.empty()) fault_ = worded([this] { return describe_stall(); });
        ThreadContext *const outer = *image_current_;
        unwind_all();
        *image_current_ = outer;
        current_ = nullptr;
    }
    return std::move(fault_);
}

// Accesses that the fast path refused.

int64_t Threadgroup::budget_of(const Region &region) const {
    const RunawayLimits &limits = launch_->limits;
    const bool watched = region.shadow == nullptr && region.fast_length < region.length;
    return watched ? std::min(limits.accesses, limits.watched_accesses) : limits.accesses;
}

void Threadgroup::check(const Access &access, const char *verb, bool reads) {
    Region &region = *access.region;
    const bool inside = access.offset <= region.length && region.length - access.offset >= access.size;
    const bool aligned = (reinterpret_cast<uintptr_t>(region.base) + access.offset) % access.alignment == 0;
    const bool bound = region.base != nullptr;
    const bool in_budget = !bound || --region.budget >= 0;  // the null region belongs to all threads
    if (bound && inside && aligned && in_budget &&
        (!reads || region.shadow == nullptr || all_written(region.shadow + access.offset, access.size))) {
        return;
    }
    const std::string what = name_of(region);
    if (!bound) fault(std::string(verb) + " through a null pointer: " + what + " is not bound");
    const std::string where = std::to_string(access.size) + "-byte " + verb + " at byte offset " +
                              std::to_string(static_cast<ptrdiff_t>(access.offset)) + " of " + what +
                              ", length " + std::to_string(region.length) + " bytes";
    if (!inside) fault("out of bounds: " + where);
    if (!aligned) fault("misaligned: " + where + ", alignment " + std::to_string(access.alignment));
    if (!in_budget) {
        fault("runaway: more than " + std::to_string(budget_of(region)) + " accesses of one threadgroup to " +
              what);
    }
    fault("uninitialised: " + where);
}

void Threadgroup::load(const Access &access, void *value) {
    check(access, "read", true);
    if (memory_model_ != nullptr) watch(access, false);
    std::memcpy(value, access.region->base + access.offset, access.size);
}

void Threadgroup::store(const Access &access, const void *value) {
    check(access, "write", false);
    if (memory_model_ != nullptr) watch(access, true);
    Region &region = *access.region;
    std::byte *const to = region.base + access.offset;
    std::memcpy(to, value, access.size);
    if (region.shadow != nullptr) {
        std::memset(region.shadow + access.offset, 0xff, access.size);
    } else if (memory_model_ != nullptr) {
        memory_model_->written(reinterpret_cast<uintptr_t>(to), access.size);
    }
}

uint32_t Threadgroup::atomic(const Access &access, AtomicOp op, uint32_t operand) {
    check(access, op == AtomicOp::load ? "atomic read" : "atomic write", op != AtomicOp::store);
    const Region &region = *access.region;
    if (memory_model_ != nullptr) {
        if (region.shadow == nullptr) return watch_atomic(access, op, operand);
        watch_array(access, op != AtomicOp::load, true);
    }
    const uint32_t before = apply(op, reinterpret_cast<uint32_t *>(region.base + access.offset), operand);
    if (region.shadow != nullptr && op == AtomicOp::store) {
        std::memset(region.shadow + access.offset, 0xff, access.size);
    }
    return before;
}

// Rendezvous.

void Threadgroup::barrier(Rendezvous kind, uint32_t flags, uint32_t line) {
    const bool whole = kind == Rendezvous::threadgroup_barrier;
    const uint32_t simdgroup = current_->simdgroup;
    const uint32_t first = whole ? 0 : simdgroup * kLanes;
    const uint32_t count = whole ? static_cast<uint32_t>(threads_.size()) : lanes_of(simdgroup);
    if (arrive(whole ? whole_ : simdgroups_[simdgroup], count, kind, line)) {
        if (memory_model_ != nullptr) note_barrier(kind, flags, simdgroup);
        release(first, count);
    } else {
        wait(kind, line);
    }
}

uint32_t Threadgroup::simd(Rendezvous kind, uint32_t value, uint32_t operand, uint32_t line) {
    Thread &self = *current_;
    self.value = value;
    self.operand = operand;
    SimdLanes lanes;
    lanes.count = lanes_of(self.simdgroup);
    if (!arrive(simdgroups_[self.simdgroup], lanes.count, kind, line)) {
        wait(kind, line);
        return self.value;
    }
    Thread *const threads = &threads_[self.simdgroup * kLanes];
    for (uint32_t l = 0; l < lanes.count; l++) {
        lanes.values[l] = threads[l].value;
        lanes.operands[l] = threads[l].operand;
    }
    uint32_t lane = 0;
    if (const char *wrong = combine(kind, lanes, &lane)) {
        fault(name_at(kind, line) + ": operand " + std::to_string(lanes.operands[lane]) + " of lane " +
              std::to_string(lane) + " " + wrong + " (" + std::to_string(lanes.count) + " lanes)");
    }
    for (uint32_t l = 0; l < lanes.count; l++) threads[l].value = lanes.values[l];
    release(self.simdgroup * kLanes, lanes.count);
    return self.value;
}

Region *Threadgroup::threadgroup_array(const char *name, size_t bytes, size_t alignment) {
    const uint32_t ordinal = current_->arrays++;
    if (ordinal < array_count_) {
        Region &array = arrays_[ordinal];
        if (array.length == bytes && std::strcmp(array.name, name) == 0) return &array;
        fault(std::string("threads disagree on threadgroup array '") + array.name + "' or '" + name +
              "': declare arrays at kernel scope, before any branch");
    }
    const size_t offset = place_array(array_bytes_, alignment);
    if (ordinal == arrays_.size() || offset + bytes > kMaxThreadgroupMemory) {
        fault(std::string("threadgroup array '") + name + "' needs " + std::to_string(offset + bytes) +
              " bytes of threadgroup memory in all, the limit is " + std::to_string(kMaxThreadgroupMemory));
    }
    array_bytes_ = offset + bytes;
    Region &array = arrays_[array_count_++];
    array = {};
    array.base = memory_.data() + offset;
    array.shadow = shadow_.data() + offset;
    array.length = bytes;
    array.fast_length = memory_model_ == nullptr ? bytes : 0;
    array.budget = launch_->limits.accesses;
    array.name = name;
    poison(array.base, bytes, launch_->choices != nullptr ? launch_->choices->seed().value_or(0) : 0);
    if (memory_model_ != nullptr) races_[ordinal].reset(bytes, alignment);
    std::memset(array.shadow, 0, bytes);
    return &array;
}

void Threadgroup::undeclared_constant(const char *name, uint32_t index) {
    fault(std::string("function constant '") + name + "' (index " + std::to_string(index) +
          ") is read but has no value");
}

}  // namespace qwisp::simt
