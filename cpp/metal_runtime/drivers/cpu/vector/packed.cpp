#include "metal_runtime/drivers/cpu/vector/packed.h"

#include <new>

#include "metal_runtime/drivers/cpu/vector/large_pages.h"

namespace qwisp::metal::vector {

namespace {

CpuMemory &memory_of(const Binding &binding) { return *static_cast<CpuMemory *>(binding.memory); }

template <typename T>
const T *data_of(const Binding &binding) {
    return reinterpret_cast<const T *>(memory_of(binding).data() + binding.offset);
}

}  // namespace

Packed::Source Packed::source_of(const Binding &binding) {
    return {memory_of(binding).contents_id(), binding.offset};
}

Packed::Packed(const Target &target, const GateBindings &from)
    : target_(target),
      weight_(source_of(from.weight)),
      scales_(source_of(from.scales)),
      biases_(source_of(from.biases)) {
    const size_t groups = (from.experts + target.width - 1) / target.width;
    const size_t group_weights = size_t{target.width} * from.hidden;
    const size_t group_pairs = group_weights / 64 * 2;
    const size_t weights = groups * group_weights;
    storage_ = large_page_memory(weights + groups * group_pairs * sizeof(uint16_t));
    auto *const start = reinterpret_cast<uint8_t *>(storage_.get());
    auto *const pairs = reinterpret_cast<uint16_t *>(start + weights);
    for (size_t group = 0; group < groups; group++) {
        target.pack_group(data_of<uint8_t>(from.weight), data_of<uint16_t>(from.scales),
                          data_of<uint16_t>(from.biases), from.hidden, from.experts,
                          static_cast<uint32_t>(group * target.width), start + group * group_weights,
                          pairs + group * group_pairs);
    }
    gate_ = {start, pairs, from.hidden, from.experts};
}

bool Packed::is_of(const Target &target, const GateBindings &gate) const {
    return &target == &target_ && gate.hidden == gate_.hidden && gate.experts == gate_.experts &&
           source_of(gate.weight) == weight_ && source_of(gate.scales) == scales_ &&
           source_of(gate.biases) == biases_;
}

std::shared_ptr<const Packed> packed_gate(const Target &target, const GateBindings &gate) {
    CpuMemory &weight = memory_of(gate.weight);
    const bool keep =
        weight.is_private() && memory_of(gate.scales).is_private() && memory_of(gate.biases).is_private();
    if (keep) {
        auto known = std::static_pointer_cast<const Packed>(weight.derived());
        if (known && known->is_of(target, gate)) return known;
    }
    std::shared_ptr<const Packed> packed;
    try {
        packed = std::make_shared<Packed>(target, gate);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
    if (keep) weight.set_derived(packed);
    return packed;
}

}  // namespace qwisp::metal::vector
