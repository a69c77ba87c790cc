// A layer's router gate on a device: MLX affine 8-bit weights (CONTRACT section 1).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "route/buffer.h"
#include "route/context.h"

namespace qwisp {

class Gate {
  public:
    // Copies the bytes. weight [experts, hidden] bytes (uint32 [experts, hidden/4] is the same memory);
    // scales, biases [experts, hidden/64] float16 bits. Throws std::invalid_argument, AllocationError.
    static std::shared_ptr<Gate> create(std::shared_ptr<Context> context, int64_t experts, int64_t hidden,
                                        std::span<const std::byte> weight, std::span<const std::byte> scales,
                                        std::span<const std::byte> biases);

    const std::shared_ptr<Context> &context() const { return context_; }
    uint32_t experts() const { return experts_; }
    uint32_t hidden() const { return hidden_; }
    MTL::Buffer *weight() const { return weight_.get(); }
    MTL::Buffer *scales() const { return scales_.get(); }
    MTL::Buffer *biases() const { return biases_.get(); }

  private:
    Gate() = default;

    std::shared_ptr<Context> context_;
    uint32_t experts_ = 0, hidden_ = 0;
    BufferPtr weight_, scales_, biases_;
};

}  // namespace qwisp
