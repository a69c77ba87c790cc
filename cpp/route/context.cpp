#include "route/context.h"

#include <mutex>
#include <stdexcept>
#include <string>

#include "route/buffer.h"
#include "route/errors.h"
#include "route/outcome.h"
#include "route/shader_text.h"

namespace qwisp {
namespace {

NS::String *string(std::string_view text) {
    return NS::String::string(std::string(text).c_str(), NS::UTF8StringEncoding);
}

[[noreturn]] void fail(const std::string &what, const NS::Error *error) {
    throw DeviceError(what + ": " + failure_text(error));
}

NS::SharedPtr<MTL::Library> compile(MTL::Device *device, const ContextOptions &options) {
    auto compile_options = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
    // The older name of math mode "safe": it exists on every system version.
    compile_options->setFastMathEnabled(false);
    if (options.contract == Contract::compiler) {
        compile_options->setPreprocessorMacros(
            NS::Dictionary::dictionary(string("1"), string("QWISP_CONTRACT_COMPILER")));
    }
    const std::string_view text = options.shader_text.empty() ? shader_text() : options.shader_text;
    NS::Error *error = nullptr;
    auto library = NS::TransferPtr(device->newLibrary(string(text), compile_options.get(), &error));
    if (!library) fail("the shaders do not compile", error);
    return library;
}

// All of them for any kernel that has some.
NS::SharedPtr<MTL::FunctionConstantValues> constant_values(const FusedConstants &constants) {
    auto values = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
    values->setConstantValue(&constants.use_bias, MTL::DataTypeBool, kUseBiasIndex);
    values->setConstantValue(&constants.write_logits, MTL::DataTypeBool, kWriteLogitsIndex);
    values->setConstantValue(&constants.hidden, MTL::DataTypeUInt, kHiddenIndex);
    values->setConstantValue(&constants.experts, MTL::DataTypeUInt, kExpertsIndex);
    values->setConstantValue(&constants.top_k, MTL::DataTypeUInt, kTopKIndex);
    values->setConstantValue(&constants.tile_rows, MTL::DataTypeUInt, kTileRowsIndex);
    return values;
}

}  // namespace

std::shared_ptr<Context> Context::create(MTL::Device *device, const ContextOptions &options) {
    if (!device) throw std::invalid_argument("device: null");
    AutoreleaseScope pool;
    return std::shared_ptr<Context>(new Context(device, options));
}

Context::Context(MTL::Device *device, const ContextOptions &options)
    : device_(NS::RetainPtr(device)),
      queue_(NS::TransferPtr(device->newCommandQueue())),
      library_(compile(device, options)),
      contract_(options.contract),
      verdicts_(options.verdicts) {
    if (!queue_) throw DeviceError("the device gives no command queue");
}

std::optional<Variant> Context::verdict(const RouteShape &shape) const {
    const auto found = verdicts_.find(shape);
    return found == verdicts_.end() ? std::nullopt : std::optional(found->second);
}

const Pipeline &Context::pipeline(Kernel kernel, const FusedConstants &constants) {
    const Key key(kernel, constants);
    {
        std::shared_lock lock(mutex_);
        if (auto found = pipelines_.find(key); found != pipelines_.end()) return *found->second;
    }
    std::unique_lock lock(mutex_);
    if (auto found = pipelines_.find(key); found != pipelines_.end()) return *found->second;
    return *pipelines_.emplace(key, build(key)).first->second;
}

std::unique_ptr<Pipeline> Context::build(const Key &key) const {
    AutoreleaseScope pool;
    const auto &[kernel, constants] = key;
    const std::string name = kernel_name(kernel);
    NS::Error *error = nullptr;

    NS::SharedPtr<MTL::Function> function;
    if (constants == FusedConstants{}) {
        function = NS::TransferPtr(library_->newFunction(string(name)));
    } else {
        function =
            NS::TransferPtr(library_->newFunction(string(name), constant_values(constants).get(), &error));
    }
    if (!function) fail("kernel " + name + " is not in the library", error);

    auto descriptor = NS::TransferPtr(MTL::ComputePipelineDescriptor::alloc()->init());
    descriptor->setComputeFunction(function.get());
    descriptor->setLabel(string(name));
    auto state = NS::TransferPtr(
        device_->newComputePipelineState(descriptor.get(), MTL::PipelineOptionNone, nullptr, &error));
    if (!state) fail("kernel " + name + ": no pipeline state", error);

    const auto max_threads = uint32_t(state->maxTotalThreadsPerThreadgroup());
    return std::make_unique<Pipeline>(Pipeline{std::move(state), kernel, constants, max_threads});
}

}  // namespace qwisp
