#include "metal_runtime/device/pipeline.h"

#include <algorithm>

namespace qwisp::metal {
namespace {

struct BindingState {
    Argument argument;
};
struct ReflectionState {
    std::vector<Argument> arguments;
};

MTL::BindingAccess access_of(const Argument &argument) {
    if (!argument.writes) return MTL::BindingAccessReadOnly;
    return argument.reads ? MTL::BindingAccessReadWrite : MTL::BindingAccessWriteOnly;
}

const objc::PayloadClass<BindingState> &binding_class() {
    static const auto cls =
        objc::PayloadClass<BindingState>("QwispBufferBinding")
            .method("name", [](const BindingState &self) { return ns_string(self.argument.name); })
            .method("index", [](const BindingState &self) -> NS::UInteger { return self.argument.index; })
            .method("type", [](const BindingState &) { return MTL::BindingTypeBuffer; })
            .method("access", [](const BindingState &self) { return access_of(self.argument); })
            .method("isUsed", [](const BindingState &) { return true; })
            .method("isArgument", [](const BindingState &) { return true; })
            .method("bufferAlignment",
                    [](const BindingState &self) -> NS::UInteger { return self.argument.alignment; })
            .method("bufferDataSize",
                    [](const BindingState &self) -> NS::UInteger { return self.argument.element_size; })
            .method("bufferDataType", [](const BindingState &) { return MTL::DataTypeNone; })
            .method("bufferStructType", [](const BindingState &) -> MTL::StructType * { return nullptr; })
            .method("bufferPointerType", [](const BindingState &) -> MTL::PointerType * { return nullptr; })
            .registered();
    return cls;
}

NS::Array *bindings(const ReflectionState &self) {
    std::vector<NS::Object *> objects;
    for (const Argument &argument : self.arguments) {
        objects.push_back(binding_class().create<NS::Object>(BindingState{argument})->autorelease());
    }
    return ns_array(objects);
}

const objc::PayloadClass<ReflectionState> &reflection_class() {
    static const auto cls =
        objc::PayloadClass<ReflectionState>("QwispComputePipelineReflection")
            .method("bindings", [](const ReflectionState &self) { return bindings(self); })
            .registered();
    return cls;
}

bool is_true(const ConstantValues &constants, uint32_t index) {
    const auto found = constants.find(index);
    const bool *const value = found == constants.end() ? nullptr : std::get_if<bool>(&found->second);
    return value && *value;
}

std::vector<Argument> existing(const std::vector<Argument> &arguments, const ConstantValues &constants) {
    std::vector<Argument> result;
    std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(result),
                 [&](const Argument &argument) {
                     return !argument.required_by || is_true(constants, *argument.required_by);
                 });
    return result;
}

// Why the device cannot run the kernel so, or an empty string.
std::string beyond_limits(const Kernel &kernel, const Limits &limits, const PipelineOptions &options) {
    const size_t most = std::min(kernel.max_threads(), limits.max_threads_per_threadgroup);
    if (kernel.threadgroup_memory() > limits.max_threadgroup_memory) {
        return "needs " + std::to_string(kernel.threadgroup_memory()) +
               " bytes of threadgroup memory, but the device has " +
               std::to_string(limits.max_threadgroup_memory);
    }
    if (options.max_threads > most) {
        return "maxTotalThreadsPerThreadgroup " + std::to_string(options.max_threads) + ", but at most " +
               std::to_string(most) + " are possible";
    }
    return {};
}

}  // namespace

const objc::PayloadClass<PipelineState> &pipeline_class() {
    static const auto cls =
        objc::PayloadClass<PipelineState>("QwispComputePipelineState")
            .method("device", [](const PipelineState &self) { return self.device.get(); })
            .method("label", [](const PipelineState &self) { return ns_string(self.pipeline->label); })
            .method("maxTotalThreadsPerThreadgroup",
                    [](const PipelineState &self) -> NS::UInteger { return self.pipeline->max_threads; })
            .method("threadExecutionWidth",
                    [](const PipelineState &self) -> NS::UInteger { return self.core()->limits.simd_width; })
            .method(
                "staticThreadgroupMemoryLength",
                [](const PipelineState &self) -> NS::UInteger { return self.pipeline->threadgroup_memory; })
            .method("requiredThreadsPerThreadgroup",
                    [](const PipelineState &self) {
                        const Size3 &size = self.pipeline->required_threads;
                        return MTL::Size(size[0], size[1], size[2]);
                    })
            .method("supportIndirectCommandBuffers", [](const PipelineState &) { return false; })
            .method("allocatedSize", [](const PipelineState &) -> NS::UInteger { return 0; })
            .method("reflection", [](const PipelineState &self) { return reflection_of(self); })
            .registered();
    return cls;
}

MTL::ComputePipelineReflection *reflection_of(const PipelineState &state) {
    auto *const made =
        reflection_class().create<MTL::ComputePipelineReflection>(ReflectionState{state.pipeline->arguments});
    return made->autorelease();
}

MTL::ComputePipelineState *new_pipeline(MTL::Device *device, const MTL::Function *function,
                                        const PipelineOptions &options, NS::Error **error) {
    const auto core = objc::payload<DeviceState>(device).core;
    const FunctionState &state =
        argument(function_class(), function, core.get(), "newComputePipelineState", "the compute function");
    const auto fail = [&](const std::string &why) -> MTL::ComputePipelineState * {
        report(error, kLibraryErrorDomain, MTL::LibraryErrorInternal,
               "function " + state.info->name + ": " + why);
        return nullptr;
    };
    const ConstantValues constants = state.constants.value_or(ConstantValues());
    if (constants.size() < state.info->constants.size()) {
        return fail("it has function constants, so it must come from newFunction with constant values");
    }
    std::string why;
    std::unique_ptr<Kernel> kernel = state.module->specialise(state.info->name, constants, &why);
    if (!kernel) return fail(why);
    why = beyond_limits(*kernel, core->limits, options);
    if (!why.empty()) return fail(why);

    auto pipeline = std::make_shared<Pipeline>();
    pipeline->device = core;
    pipeline->module = state.module;
    pipeline->arguments = existing(kernel->info().arguments, constants);
    pipeline->slots = 0;
    for (const Argument &argument : pipeline->arguments) {
        if (argument.index >= kMaxBuffers)
            return fail("argument " + argument.name + " has a slot beyond the last");
        pipeline->slots = std::max<size_t>(pipeline->slots, argument.index + 1);
    }
    pipeline->max_threads = std::min(kernel->max_threads(), core->limits.max_threads_per_threadgroup);
    if (options.max_threads) pipeline->max_threads = options.max_threads;
    pipeline->threadgroup_memory = kernel->threadgroup_memory();
    pipeline->required_threads = options.required_threads;
    pipeline->whole_simdgroups = options.whole_simdgroups;
    pipeline->label = options.label;
    pipeline->kernel = std::move(kernel);
    return pipeline_class().create<MTL::ComputePipelineState>(
        PipelineState{NS::RetainPtr(device), std::move(pipeline)});
}

MTL::ComputePipelineState *new_pipeline(MTL::Device *device, const MTL::ComputePipelineDescriptor *descriptor,
                                        NS::Error **error) {
    if (!descriptor) refuse(Misuse::null_argument, "newComputePipelineState: the descriptor is null");
    PipelineOptions options;
    options.label = text_of(descriptor->label());
    options.max_threads = descriptor->maxTotalThreadsPerThreadgroup();
    const MTL::Size required = descriptor->requiredThreadsPerThreadgroup();
    options.required_threads = {required.width, required.height, required.depth};
    options.whole_simdgroups = descriptor->threadGroupSizeIsMultipleOfThreadExecutionWidth();
    return new_pipeline(device, descriptor->computeFunction(), options, error);
}

}  // namespace qwisp::metal
