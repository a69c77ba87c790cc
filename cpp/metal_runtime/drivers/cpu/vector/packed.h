// Gates in the vector kernels' order, kept with the memory that holds their weights.
#pragma once
#include <cstddef>
#include <memory>

#include "metal_runtime/drivers/cpu/cpu_memory.h"
#include "metal_runtime/drivers/cpu/vector/target.h"

namespace qwisp::metal::vector {

struct GateBindings {
    Binding weight, scales, biases;
    uint32_t hidden, experts;
};

// A gate in large pages: a decode step reads every gate once, and small pages would cost it misses in the
// TLB.
class Packed final : public Derived {
  public:
    Packed(const Target &target, const GateBindings &from);
    bool is_of(const Target &target, const GateBindings &gate) const;
    const PackedGate &gate() const { return gate_; }

  private:
    struct Source {
        uint64_t contents;
        size_t offset;
        bool operator==(const Source &) const = default;
    };
    static Source source_of(const Binding &binding);

    const Target &target_;
    const Source weight_, scales_, biases_;
    std::shared_ptr<std::byte> storage_;
    PackedGate gate_{};
};

// From the cache if all three buffers are private and unchanged, else packed now. Null: no memory.
std::shared_ptr<const Packed> packed_gate(const Target &target, const GateBindings &gate);

}  // namespace qwisp::metal::vector
