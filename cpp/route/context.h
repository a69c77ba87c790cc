// What routes on one device share: the device, its queue, the compiled shaders and the pipeline states.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <utility>

#include "route/kernel.h"
#include "route/variant.h"

namespace qwisp {

// Contraction of a*b+c in every kernel alike. `compiler` leaves it to the compiler, for parity with an engine
// that does.
enum class Contract { off, compiler };

struct ContextOptions {
    Contract contract = Contract::off;
    std::string_view shader_text = {};  // empty: the embedded text
    Verdicts verdicts = {};             // for Fuse::automatic
};

// A pipeline state with its name and its own thread limit.
struct Pipeline {
    NS::SharedPtr<MTL::ComputePipelineState> state;
    Kernel kernel;
    FusedConstants constants;
    uint32_t max_threads;  // of a threadgroup of this kernel
};

// Safe to use from several threads.
class Context {
  public:
    // Compiles the shaders. Throws DeviceError with the device's own message, std::invalid_argument for no
    // device.
    static std::shared_ptr<Context> create(MTL::Device *device, const ContextOptions &options = {});

    MTL::Device *device() const { return device_.get(); }
    MTL::CommandQueue *queue() const { return queue_.get(); }
    MTL::Library *library() const { return library_.get(); }
    Contract contract() const { return contract_; }
    std::optional<Variant> verdict(const RouteShape &shape) const;

    // Built at the first request; the reference lives as long as the context.
    const Pipeline &pipeline(Kernel kernel, const FusedConstants &constants = {});

    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

  private:
    using Key = std::pair<Kernel, FusedConstants>;

    Context(MTL::Device *device, const ContextOptions &options);
    std::unique_ptr<Pipeline> build(const Key &key) const;

    NS::SharedPtr<MTL::Device> device_;
    NS::SharedPtr<MTL::CommandQueue> queue_;
    NS::SharedPtr<MTL::Library> library_;
    Contract contract_;
    Verdicts verdicts_;
    std::shared_mutex mutex_;
    std::map<Key, std::unique_ptr<Pipeline>> pipelines_;
};

}  // namespace qwisp
