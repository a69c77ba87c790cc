// The classes that hosts make themselves, found by their Metal names. On macOS Metal's own are used: the
// device reads them through metal-cpp only.
#include "metal_runtime/device/device.h"
#include "metal_runtime/device/library.h"

#if !defined(__APPLE__)

namespace qwisp::metal {
namespace {

using StringPtr = NS::SharedPtr<NS::String>;

template <class T>
NS::SharedPtr<T> retained(T *object) {
    return object ? NS::RetainPtr(object) : NS::SharedPtr<T>();
}
StringPtr copied(NS::String *string) { return string ? NS::TransferPtr(string->copy()) : StringPtr(); }

struct CompileOptionsState {
    NS::SharedPtr<NS::Dictionary> macros;
    bool fast_math = true;
    MTL::MathMode math_mode = MTL::MathModeFast;
    MTL::MathFloatingPointFunctions functions = MTL::MathFloatingPointFunctionsFast;
    MTL::LanguageVersion language = MTL::LanguageVersion3_2;
    MTL::LibraryOptimizationLevel optimization = MTL::LibraryOptimizationLevelDefault;
    bool preserve_invariance = false;
};

struct PipelineDescriptorState {
    StringPtr label;
    NS::SharedPtr<MTL::Function> function;
    NS::UInteger max_threads = 0;
    Size3 required = {};
    bool whole_simdgroups = false;
};

struct QueueDescriptorState {
    NS::UInteger max_buffers = 64;
};
struct CommandBufferDescriptorState {
    bool retained = true;
    MTL::CommandBufferErrorOption errors = MTL::CommandBufferErrorOptionNone;
};
struct PassDescriptorState {
    MTL::DispatchType dispatch_type = MTL::DispatchTypeSerial;
};

const objc::PayloadClass<CompileOptionsState> &compile_options_class() {
    using State = CompileOptionsState;
    static const auto cls =
        objc::PayloadClass<State>("MTLCompileOptions")
            .method("copy",
                    [](const State &self) { return compile_options_class().create<objc_object>(self); })
            .method("preprocessorMacros", [](const State &self) { return self.macros.get(); })
            .method("setPreprocessorMacros:",
                    [](State &self, NS::Dictionary *macros) { self.macros = retained(macros); })
            .method("fastMathEnabled", [](const State &self) { return self.fast_math; })
            .method("setFastMathEnabled:",
                    [](State &self, bool enabled) {
                        self.fast_math = enabled;
                        self.math_mode = enabled ? MTL::MathModeFast : MTL::MathModeSafe;
                    })
            .method("mathMode", [](const State &self) { return self.math_mode; })
            .method("setMathMode:",
                    [](State &self, MTL::MathMode mode) {
                        self.math_mode = mode;
                        self.fast_math = mode == MTL::MathModeFast;
                    })
            .method("mathFloatingPointFunctions", [](const State &self) { return self.functions; })
            .method(
                "setMathFloatingPointFunctions:",
                [](State &self, MTL::MathFloatingPointFunctions functions) { self.functions = functions; })
            .method("languageVersion", [](const State &self) { return self.language; })
            .method("setLanguageVersion:",
                    [](State &self, MTL::LanguageVersion version) { self.language = version; })
            .method("optimizationLevel", [](const State &self) { return self.optimization; })
            .method("setOptimizationLevel:",
                    [](State &self, MTL::LibraryOptimizationLevel level) { self.optimization = level; })
            .method("preserveInvariance", [](const State &self) { return self.preserve_invariance; })
            .method("setPreserveInvariance:",
                    [](State &self, bool preserve) { self.preserve_invariance = preserve; })
            .registered();
    return cls;
}

const objc::PayloadClass<StoredConstants> &constant_values_class() {
    using State = StoredConstants;
    static const auto cls =
        objc::PayloadClass<State>("MTLFunctionConstantValues")
            .method("copy",
                    [](const State &self) { return constant_values_class().create<objc_object>(self); })
            .method("reset", [](State &self) { self = {}; })
            .method("setConstantValue:type:atIndex:",
                    [](State &self, const void *value, MTL::DataType type, NS::UInteger index) {
                        self.set(value, type, NS::Range(index, 1));
                    })
            .method("setConstantValues:type:withRange:",
                    [](State &self, const void *values, MTL::DataType type, NS::Range range) {
                        self.set(values, type, range);
                    })
            .method("setConstantValue:type:withName:", [](State &self, const void *value, MTL::DataType type,
                                                          NS::String *name) { self.set(value, type, name); })
            .registered();
    return cls;
}

const objc::PayloadClass<PipelineDescriptorState> &pipeline_descriptor_class() {
    using State = PipelineDescriptorState;
    static const auto cls =
        objc::PayloadClass<State>("MTLComputePipelineDescriptor")
            .method("copy",
                    [](const State &self) { return pipeline_descriptor_class().create<objc_object>(self); })
            .method("reset", [](State &self) { self = {}; })
            .method("label", [](const State &self) { return self.label.get(); })
            .method("setLabel:", [](State &self, NS::String *label) { self.label = copied(label); })
            .method("computeFunction", [](const State &self) { return self.function.get(); })
            .method("setComputeFunction:",
                    [](State &self, MTL::Function *function) { self.function = retained(function); })
            .method("maxTotalThreadsPerThreadgroup", [](const State &self) { return self.max_threads; })
            .method("setMaxTotalThreadsPerThreadgroup:",
                    [](State &self, NS::UInteger threads) { self.max_threads = threads; })
            .method("requiredThreadsPerThreadgroup",
                    [](const State &self) {
                        return MTL::Size(self.required[0], self.required[1], self.required[2]);
                    })
            .method("setRequiredThreadsPerThreadgroup:",
                    [](State &self, MTL::Size size) {
                        self.required = {size.width, size.height, size.depth};
                    })
            .method("threadGroupSizeIsMultipleOfThreadExecutionWidth",
                    [](const State &self) { return self.whole_simdgroups; })
            .method("setThreadGroupSizeIsMultipleOfThreadExecutionWidth:",
                    [](State &self, bool whole) { self.whole_simdgroups = whole; })
            .registered();
    return cls;
}

const objc::PayloadClass<QueueDescriptorState> &queue_descriptor_class() {
    using State = QueueDescriptorState;
    static const auto cls =
        objc::PayloadClass<State>("MTLCommandQueueDescriptor")
            .method("copy",
                    [](const State &self) { return queue_descriptor_class().create<objc_object>(self); })
            .method("maxCommandBufferCount", [](const State &self) { return self.max_buffers; })
            .method("setMaxCommandBufferCount:",
                    [](State &self, NS::UInteger count) { self.max_buffers = count; })
            .registered();
    return cls;
}

const objc::PayloadClass<CommandBufferDescriptorState> &command_buffer_descriptor_class() {
    using State = CommandBufferDescriptorState;
    static const auto cls =
        objc::PayloadClass<State>("MTLCommandBufferDescriptor")
            .method(
                "copy",
                [](const State &self) { return command_buffer_descriptor_class().create<objc_object>(self); })
            .method("retainedReferences", [](const State &self) { return self.retained; })
            .method("setRetainedReferences:", [](State &self, bool retained) { self.retained = retained; })
            .method("errorOptions", [](const State &self) { return self.errors; })
            .method("setErrorOptions:",
                    [](State &self, MTL::CommandBufferErrorOption options) { self.errors = options; })
            .registered();
    return cls;
}

const objc::PayloadClass<PassDescriptorState> &pass_descriptor_class() {
    using State = PassDescriptorState;
    static const auto cls =
        objc::PayloadClass<State>("MTLComputePassDescriptor")
            .class_method(
                "computePassDescriptor",
                [](Class) {
                    return pass_descriptor_class().create<MTL::ComputePassDescriptor>()->autorelease();
                })
            .method("copy",
                    [](const State &self) { return pass_descriptor_class().create<objc_object>(self); })
            .method("dispatchType", [](const State &self) { return self.dispatch_type; })
            .method("setDispatchType:",
                    [](State &self, MTL::DispatchType type) { self.dispatch_type = type; })
            .registered();
    return cls;
}

}  // namespace

const StoredConstants *stored_constants(const MTL::FunctionConstantValues *values) {
    return constant_values_class().find(values);
}

}  // namespace qwisp::metal

extern "C" void qwisp_define_metal_classes() {
    using namespace qwisp::metal;
    compile_options_class();
    constant_values_class();
    pipeline_descriptor_class();
    queue_descriptor_class();
    command_buffer_descriptor_class();
    pass_descriptor_class();
}

#endif
