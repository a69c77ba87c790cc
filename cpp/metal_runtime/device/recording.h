// A compute encoder that executes nothing and records what was encoded: for tests of encoding code, with
// pipeline states and buffers of any Metal device, Apple's included.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace qwisp::metal {

struct RecordedBinding {
    uint32_t slot;
    std::string buffer;  // its label
    uint64_t offset;
    std::vector<std::byte> bytes;  // of setBytes; then there is no buffer

    bool operator==(const RecordedBinding &) const = default;
};

struct RecordedCommand {
    enum class Kind { dispatch_groups, dispatch_threads, barrier };

    Kind kind;
    std::string pipeline;                   // its label
    std::vector<RecordedBinding> bindings;  // set since the dispatch before, by slot
    std::array<uint64_t, 3> grid, threads;  // of threadgroups or threads, by kind; of a threadgroup

    bool operator==(const RecordedCommand &) const = default;
};

class Recording {
  public:
    // `device` is what the encoder gives as its device; it may be null.
    explicit Recording(MTL::Device *device, MTL::DispatchType type = MTL::DispatchTypeSerial);

    MTL::ComputeCommandEncoder *encoder() const { return encoder_.get(); }
    const std::vector<RecordedCommand> &commands() const;
    bool ended() const;

  private:
    NS::SharedPtr<MTL::ComputeCommandEncoder> encoder_;
};

}  // namespace qwisp::metal
