#include "metal_runtime/drivers/cpu/vector/twins.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "metal_runtime/drivers/cpu/cpu_memory.h"
#include "metal_runtime/drivers/cpu/vector/packed.h"
#include "route_types.h"

namespace qwisp::metal::vector {

namespace {

// Rows whose converted x stays in the second-level cache.
constexpr uint32_t kRowsAtOnce = 32;
constexpr uint32_t kLargestHidden = 1u << 20;

std::byte *data_of(const Binding &binding) {
    if (binding.memory != nullptr) return static_cast<CpuMemory *>(binding.memory)->data() + binding.offset;
    return static_cast<std::byte *>(const_cast<void *>(binding.bytes)) + binding.offset;
}

// The arguments of one dispatch, checked as they are taken.
class Arguments {
  public:
    Arguments(const CpuKernel &kernel, const Dispatch &dispatch) : kernel_(kernel), dispatch_(dispatch) {}

    template <typename T>
    T *take(uint32_t slot, uint64_t count) {  // null: not sound
        const bool bound = slot < dispatch_.bindings.size();
        const Binding &binding = bound ? dispatch_.bindings[slot] : kUnbound;
        const uint64_t length = count * sizeof(T);
        std::byte *const data = binding.memory || binding.bytes ? data_of(binding) : nullptr;
        if (data == nullptr || length > binding.length || used_ == kMost ||
            reinterpret_cast<uintptr_t>(data) % alignof(T) != 0 ||
            (binding.memory != nullptr &&
             !static_cast<CpuMemory *>(binding.memory)->holds(binding.offset, length))) {
            sound_ = false;
            return nullptr;
        }
        ranges_[used_++] = {data, data + length, !std::is_const_v<T>};
        return reinterpret_cast<T *>(data);
    }
    template <typename T>
    T value(uint32_t slot) {
        const T *const at = take<const T>(slot, 1);
        return at == nullptr ? T{} : *at;
    }
    // All taken, and nothing that is written lies in another range.
    bool are_sound() const {
        if (!sound_) return false;
        for (size_t a = 0; a < used_; a++) {
            for (size_t b = 0; ranges_[a].written && b < used_; b++) {
                if (a != b && ranges_[a].start < ranges_[b].end && ranges_[b].start < ranges_[a].end)
                    return false;
            }
        }
        return true;
    }
    bool is_memory(uint32_t slot) const { return dispatch_.bindings[slot].memory != nullptr; }
    const Binding &binding(uint32_t slot) const { return dispatch_.bindings[slot]; }
    const Size3 &groups() const { return dispatch_.groups; }
    uint64_t threads() const { return dispatch_.threads[0] * dispatch_.threads[1] * dispatch_.threads[2]; }
    uint32_t constant(uint32_t index) const { return kernel_.constant(index); }
    bool grid_is(uint64_t columns, uint64_t threads) const {
        return groups()[1] == columns && groups()[2] == 1 && this->threads() == threads &&
               dispatch_.grid == Size3{groups()[0] * dispatch_.threads[0], groups()[1] * dispatch_.threads[1],
                                       groups()[2] * dispatch_.threads[2]};
    }

  private:
    struct Range {
        const std::byte *start, *end;
        bool written;
    };
    static constexpr size_t kMost = 12;
    static constexpr Binding kUnbound{};

    const CpuKernel &kernel_;
    const Dispatch &dispatch_;
    Range ranges_[kMost];
    size_t used_ = 0;
    bool sound_ = true;
};

// Of one thread, kept between dispatches.
float *scratch(size_t count) {
    constexpr std::align_val_t kAlignment{64};
    struct Delete {
        void operator()(float *floats) const { ::operator delete(floats, kAlignment); }
    };
    thread_local std::unique_ptr<float, Delete> storage;
    thread_local size_t room = 0;
    if (room < count) {
        room = 0;
        storage.reset();
        storage.reset(static_cast<float *>(::operator new(count * sizeof(float), kAlignment)));
        room = count;
    }
    return storage.get();
}

bool is_hidden(uint32_t hidden) {
    return hidden != 0 && hidden % kHiddenMultiple == 0 && hidden <= kLargestHidden;
}
bool is_experts(uint32_t experts) { return experts != 0 && experts % kExpertMultiple == 0; }
bool can_choose(uint32_t experts, uint32_t top_k) {
    return is_experts(experts) && experts <= kMaxExperts && top_k != 0 && top_k <= experts;
}

struct Matvec {
    const uint16_t *x;
    uint32_t rows;
    std::shared_ptr<const Packed> packed;
};

// The last of the arguments to be taken. The first four slots agree in every kernel that reads a gate. Null:
// not sound, or no memory.
std::shared_ptr<const Packed> take_gate(const Target &target, Arguments &arguments, uint32_t hidden,
                                        uint32_t experts) {
    const uint64_t weights = uint64_t{hidden} * experts;
    arguments.take<const uint8_t>(kQmmWeight, weights);
    arguments.take<const uint16_t>(kQmmScales, weights / kQuantGroup);
    arguments.take<const uint16_t>(kQmmBiases, weights / kQuantGroup);
    if (!arguments.are_sound()) return nullptr;
    for (const uint32_t slot : {kQmmWeight, kQmmScales, kQmmBiases}) {
        if (!arguments.is_memory(slot)) return nullptr;
    }
    return packed_gate(target, {arguments.binding(kQmmWeight), arguments.binding(kQmmScales),
                                arguments.binding(kQmmBiases), hidden, experts});
}
static_assert(uint32_t{kQmmWeight} == kFusedWeight && uint32_t{kQmmScales} == kFusedScales &&
              uint32_t{kQmmBiases} == kFusedBiases);

// Converts, multiplies and then finishes each row: `out(first row)` says where the logits of a block of rows
// go, `finish(row, its logits)` follows when all of them are there.
template <typename Out, typename Finish>
void multiply(const Target &target, const Matvec &matvec, Team::Session &session, const Out &out,
              const Finish &finish) {
    const PackedGate &gate = matvec.packed->gate();
    const uint32_t groups = (gate.experts + target.width - 1) / target.width;
    float *const converted = scratch(std::min(matvec.rows, kRowsAtOnce) * floats_per_row(gate.hidden));
    const uint32_t parts = std::min(groups, session.threads() == 1 ? 1 : session.threads() * 4);
    for (uint32_t first = 0; first < matvec.rows; first += kRowsAtOnce) {
        const uint32_t rows = std::min(kRowsAtOnce, matvec.rows - first);
        target.convert(matvec.x + first * size_t{gate.hidden}, gate.hidden, rows, converted);
        uint16_t *const logits = out(first);
        const uint64_t weights = uint64_t{rows} * gate.experts * gate.hidden;
        session.run(parts, weights, [&](uint32_t part) {
            target.logits(gate, converted, rows, groups * part / parts, groups * (part + 1) / parts, logits);
        });
        for (uint32_t m = 0; m < rows; m++) finish(first + m, logits + m * size_t{gate.experts});
    }
}

bool qmm8_rows(const Target &target, Arguments &arguments, bool split, Team::Session &session) {
    const QmmArgs args = split ? QmmArgs{arguments.constant(kHiddenIndex), arguments.constant(kExpertsIndex)}
                               : arguments.value<const QmmArgs>(kQmmArgs);
    const uint64_t row_count = arguments.groups()[0] * (split ? arguments.constant(kTileRowsIndex) : 1);
    const auto rows = static_cast<uint32_t>(row_count);
    if (!is_hidden(args.hidden) || !is_experts(args.experts) || row_count > UINT32_MAX ||
        !arguments.grid_is(args.experts / (split ? kSplitExperts : kExpertsPerGroup),
                           split ? kSplitThreads : kQmmThreads)) {
        return false;
    }
    const auto *const x = arguments.take<const uint16_t>(kQmmX, uint64_t{rows} * args.hidden);
    auto *const logits = arguments.take<uint16_t>(kQmmLogits, uint64_t{rows} * args.experts);
    const Matvec matvec{x, rows, take_gate(target, arguments, args.hidden, args.experts)};
    if (!matvec.packed) return false;
    multiply(
        target, matvec, session, [&](uint32_t row) { return logits + row * size_t{args.experts}; },
        [](uint32_t, const uint16_t *) {});
    return true;
}

bool route_top8(const Target &target, Arguments &arguments, bool wide, bool biased) {
    auto args = arguments.value<const TopkArgs>(kTopkArgs);
    if (wide) {
        args = {arguments.constant(kExpertsIndex), arguments.constant(kTopKIndex), args.eps};
        biased = arguments.constant(kUseBiasIndex) != 0;
        if (args.top_k > kMaxFusedTopK) return false;
    }
    const uint64_t rows = arguments.groups()[0];
    if (!arguments.grid_is(1, kRouteThreads) || !can_choose(args.experts, args.top_k)) {
        return false;
    }
    const auto *const logits = arguments.take<const uint16_t>(kTopkLogits, rows * args.experts);
    auto *const inds = arguments.take<int32_t>(kTopkInds, rows * args.top_k);
    auto *const scores = arguments.take<uint16_t>(kTopkScores, rows * args.top_k);
    Choice choice{args.experts, args.top_k, nullptr, args.eps};
    if (biased) choice.resident = arguments.take<const int32_t>(kTopkResident, args.experts);
    if (!arguments.are_sound()) return false;
    for (uint64_t row = 0; row < rows; row++) {
        target.choose(logits + row * args.experts, choice, inds + row * args.top_k,
                      scores + row * args.top_k);
    }
    return true;
}

bool are_zero(const uint32_t *words, size_t count) {
    return std::all_of(words, words + count, [](uint32_t word) { return word == 0; });
}

enum class Fused { single, last, split };

bool route_fused(const Target &target, Arguments &arguments, Fused kind, Team::Session &session) {
    const uint32_t hidden = arguments.constant(kHiddenIndex), experts = arguments.constant(kExpertsIndex);
    const uint32_t top_k = arguments.constant(kTopKIndex);
    const auto rows = static_cast<uint32_t>(arguments.groups()[0]);
    const uint64_t own_threads = kind == Fused::split ? kSplitThreads : kQmmThreads;
    const uint64_t threads = kind == Fused::single ? arguments.threads() : own_threads;
    const uint32_t experts_at_once = kind == Fused::split ? kSplitExperts : kExpertsPerGroup;
    if (!is_hidden(hidden) || !can_choose(experts, top_k) || top_k > kMaxFusedTopK || threads == 0 ||
        threads % kSimdWidth != 0 ||
        !arguments.grid_is(kind == Fused::single ? 1 : experts / experts_at_once, threads)) {
        return false;
    }
    const auto *const x = arguments.take<const uint16_t>(kFusedX, uint64_t{rows} * hidden);
    auto *const inds = arguments.take<int32_t>(kFusedInds, uint64_t{rows} * top_k);
    auto *const scores = arguments.take<uint16_t>(kFusedScoresOut, uint64_t{rows} * top_k);
    Choice choice{experts, top_k, nullptr, arguments.value<const FusedArgs>(kFusedArgs).eps};
    uint16_t *written = nullptr;
    if (arguments.constant(kWriteLogitsIndex) != 0) {
        written = arguments.take<uint16_t>(kFusedLogits, uint64_t{rows} * experts);
    }
    if (arguments.constant(kUseBiasIndex) != 0) {
        choice.resident = arguments.take<const int32_t>(kFusedResident, experts);
    }
    if (kind != Fused::single) {
        const size_t count = size_t{rows} * experts / (kind == Fused::split ? uint32_t{kSplitExperts} : 1u);
        const auto *const arrivals = arguments.take<uint32_t>(kFusedArrivals, rows);
        const auto *const words = arguments.take<uint32_t>(kFusedWords, count);
        if (!arguments.are_sound() || !are_zero(arrivals, rows) || !are_zero(words, count)) {
            return false;
        }
    }
    const Matvec matvec{x, rows, take_gate(target, arguments, hidden, experts)};
    if (!matvec.packed) return false;
    uint16_t local[kRowsAtOnce * kMaxExperts];
    multiply(
        target, matvec, session,
        [&](uint32_t row) { return written == nullptr ? local : written + row * size_t{experts}; },
        [&](uint32_t row, const uint16_t *logits) {
            target.choose(logits, choice, inds + row * size_t{top_k}, scores + row * size_t{top_k});
        });
    return true;
}

bool diag_copy_route(Arguments &arguments) {
    const auto args = arguments.value<const DiagArgs>(kDiagArgs);
    const uint64_t reach = arguments.groups()[0] * kCopyThreads;
    if (!arguments.grid_is(1, kCopyThreads)) return false;
    const uint64_t inds = std::min<uint64_t>(args.inds_count, reach);
    const uint64_t logits = std::min<uint64_t>(args.logits_count, reach);
    const auto *const inds_in = arguments.take<const int32_t>(kDiagInds, inds);
    const auto *const logits_in = arguments.take<const uint16_t>(kDiagLogits, logits);
    auto *const inds_out = arguments.take<int32_t>(kDiagIndsOut, inds);
    auto *const logits_out = arguments.take<uint16_t>(kDiagLogitsOut, logits);
    if (!arguments.are_sound()) return false;
    std::memcpy(inds_out, inds_in, inds * sizeof(int32_t));
    std::memcpy(logits_out, logits_in, logits * sizeof(uint16_t));
    return true;
}

bool slot_remap_rows(Arguments &arguments) {
    const auto args = arguments.value<const RemapArgs>(kRemapArgs);
    if (!arguments.grid_is(1, kCopyThreads)) return false;
    const uint64_t count = std::min<uint64_t>(args.count, arguments.groups()[0] * kCopyThreads);
    auto *const inds = arguments.take<int32_t>(kRemapInds, count);
    const auto *const table = arguments.take<const int32_t>(kRemapTable, args.table_length);
    if (!arguments.are_sound()) return false;
    for (uint64_t i = 0; i < count; i++) {
        if (inds[i] >= 0 && static_cast<uint32_t>(inds[i]) < args.table_length) inds[i] = table[inds[i]];
    }
    return true;
}

const CpuKernel &kernel_of(const Dispatch &dispatch) {
    return *static_cast<const CpuKernel *>(dispatch.kernel);
}

}  // namespace

bool run_twin(const Target &target, const Dispatch &dispatch, Team::Session &session) {
    const CpuKernel &kernel = kernel_of(dispatch);
    if (dispatch.groups[0] > UINT32_MAX) return false;
    Arguments arguments(kernel, dispatch);
    switch (kernel.own()) {
        case OwnKernel::qmm8_rows:
            return qmm8_rows(target, arguments, false, session);
        case OwnKernel::qmm8_rows_split:
            return qmm8_rows(target, arguments, true, session);
        case OwnKernel::route_top8_rows:
            return route_top8(target, arguments, false, false);
        case OwnKernel::route_top8_rows_bias:
            return route_top8(target, arguments, false, true);
        case OwnKernel::route_top8_rows_wide:
            return route_top8(target, arguments, true, false);
        case OwnKernel::route_fused_rows_single:
            return route_fused(target, arguments, Fused::single, session);
        case OwnKernel::route_fused_rows_last:
            return route_fused(target, arguments, Fused::last, session);
        case OwnKernel::route_fused_rows_split:
            return route_fused(target, arguments, Fused::split, session);
        case OwnKernel::diag_copy_route:
            return diag_copy_route(arguments);
        case OwnKernel::slot_remap_rows:
            return slot_remap_rows(arguments);
        case OwnKernel::none:
            break;
    }
    return false;
}

uint64_t weights_of(const Dispatch &dispatch) {
    switch (kernel_of(dispatch).own()) {
        case OwnKernel::qmm8_rows:
        case OwnKernel::qmm8_rows_split:
        case OwnKernel::route_fused_rows_single:
        case OwnKernel::route_fused_rows_last:
        case OwnKernel::route_fused_rows_split:
            return dispatch.bindings[kQmmWeight].length * dispatch.groups[0];
        default:
            return 0;
    }
}

}  // namespace qwisp::metal::vector
