#include <algorithm>

#include "fault.h"
#include "threadgroup.h"

namespace qwisp::simt {

namespace {

const char *name_of(Rendezvous kind) {
    switch (kind) {
        case Rendezvous::threadgroup_barrier:
            return "threadgroup_barrier";
        case Rendezvous::simdgroup_barrier:
            return "simdgroup_barrier";
        case Rendezvous::simd_sum_f32:
        case Rendezvous::simd_sum_u32:
            return "simd_sum";
        case Rendezvous::simd_max_f32:
        case Rendezvous::simd_max_u32:
        case Rendezvous::simd_max_i32:
            return "simd_max";
        case Rendezvous::simd_min_f32:
        case Rendezvous::simd_min_u32:
        case Rendezvous::simd_min_i32:
            return "simd_min";
        case Rendezvous::simd_any:
            return "simd_any";
        case Rendezvous::simd_all:
            return "simd_all";
        case Rendezvous::simd_broadcast:
            return "simd_broadcast";
        case Rendezvous::simd_shuffle:
            return "simd_shuffle";
        case Rendezvous::simd_shuffle_xor:
            return "simd_shuffle_xor";
    }
    return "unknown operation";
}

constexpr size_t kMaxRanges = 8;  // of threads, in one message

}  // namespace

std::string name_at(Rendezvous kind, uint32_t line) {
    return std::string(name_of(kind)) + " (line " + std::to_string(line) + " of the shader text)";
}

std::string Threadgroup::describe(const std::string &what, const std::string &where) const {
    const auto &group = threads_.front().group;
    const std::string order = launch_->choices != nullptr ? launch_->choices->name() : "natural order";
    return std::string("kernel ") + launch_->function->name + ": " + what + "; threadgroup (" +
           std::to_string(group[0]) + ", " + std::to_string(group[1]) + ", " + std::to_string(group[2]) +
           ")" + where + ", " + order;
}

std::string Threadgroup::name_of(const Region &region) const {
    if (region.shadow != nullptr) return std::string("threadgroup array '") + region.name + "'";
    if (region.slot >= kMaxSlots) return region.name;
    const std::string label = launch_->label(region.slot);
    std::string name = std::string("argument '") + region.name + "' (buffer " + std::to_string(region.slot);
    if (!label.empty()) name += ", label '" + label + "'";
    return name + ")";
}

std::string Threadgroup::name_of(const Party &party) const {
    std::string name = "thread " + std::to_string(party.now.thread);
    if (party.group == linear_) return name;
    const auto [x, y, z] = launch_->groups;
    return name + " of threadgroup (" + std::to_string(party.group % x) + ", " +
           std::to_string(party.group / x % y) + ", " + std::to_string(party.group / x / y) + ")";
}

void Threadgroup::fault(const std::string &what) const {
    const Thread &thread = *current_;
    throw Fault{describe(what, ", thread " + std::to_string(thread.index) + " (simdgroup " +
                                   std::to_string(thread.simdgroup) + ", lane " +
                                   std::to_string(thread.lane) + ")")};
}

std::string Threadgroup::describe_threads(uint32_t first, uint32_t count) const {
    const auto doing = [this](uint32_t t) {
        const Thread &thread = threads_[t];
        return thread.state == State::waiting ? "at " + name_at(thread.kind, thread.line) : "finished";
    };
    std::string list;
    size_t ranges = 0;
    for (uint32_t from = first; from < first + count;) {
        if (++ranges > kMaxRanges) return list + ", ...";
        uint32_t to = from + 1;
        while (to < first + count && doing(to) == doing(from)) to++;
        if (!list.empty()) list += ", ";
        list += to - from == 1 ? "thread " : "threads ";
        list += std::to_string(from);
        if (to - from > 1) list.append("-").append(std::to_string(to - 1));
        list.append(" ").append(doing(from));
        from = to;
    }
    return list;
}

// Nobody can go on: some wait where the others will never come.
std::string Threadgroup::describe_stall() const {
    const auto in_simd_operation = [](const Thread &thread) {
        return thread.state == State::waiting && thread.kind != Rendezvous::threadgroup_barrier;
    };
    const auto stuck = std::find_if(threads_.begin(), threads_.end(), in_simd_operation);
    if (stuck == threads_.end()) {
        return describe("divergent barrier: " + describe_threads(0, static_cast<uint32_t>(threads_.size())),
                        "");
    }
    const uint32_t simdgroup = stuck->simdgroup;
    return describe(
        "divergent simdgroup operation: " + describe_threads(simdgroup * kLanes, lanes_of(simdgroup)),
        ", simdgroup " + std::to_string(simdgroup));
}

}  // namespace qwisp::simt
