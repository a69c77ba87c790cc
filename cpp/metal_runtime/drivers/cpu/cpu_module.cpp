#include "cpu_module.h"

#include <algorithm>
#include <bit>

#include "cpu_memory.h"
#include "images.h"

namespace qwisp::metal {

namespace {

ConstantType type_of(simt::ConstantKind kind) {
    switch (kind) {
        case simt::ConstantKind::boolean:
            return ConstantType::boolean;
        case simt::ConstantKind::uint32:
            return ConstantType::uint32;
        case simt::ConstantKind::float32:
            break;
    }
    return ConstantType::float32;
}

std::vector<FunctionConstant> constants_of(const simt::KernelImage &image,
                                           const simt::FunctionImage &function) {
    std::vector<FunctionConstant> constants;
    const auto add = [&](const simt::ConstantInfo &info) {
        constants.push_back({info.name, info.index, type_of(info.kind)});
    };
    if (function.constant_count == simt::kEveryConstant) {
        for (auto *node = *image.constants; node != nullptr; node = node->next) add(node->info);
    } else {
        std::for_each_n(function.constants, function.constant_count, add);
    }
    std::sort(constants.begin(), constants.end(), [](auto &a, auto &b) { return a.index < b.index; });
    return constants;
}

FunctionInfo describe(const simt::KernelImage &image, const simt::FunctionImage &function) {
    FunctionInfo info{function.name, {}, constants_of(image, function)};
    std::for_each_n(function.arguments, function.argument_count, [&](const simt::ArgumentInfo &argument) {
        std::optional<uint32_t> required_by;
        if (argument.required_by >= 0) required_by = static_cast<uint32_t>(argument.required_by);
        info.arguments.push_back({argument.name, argument.slot, true, argument.writes, argument.is_constant,
                                  argument.element_size, argument.alignment, required_by});
    });
    return info;
}

uint32_t bits_of(const std::variant<bool, uint32_t, float> &value) {
    if (const bool *flag = std::get_if<bool>(&value)) return *flag;
    if (const uint32_t *number = std::get_if<uint32_t>(&value)) return *number;
    return std::bit_cast<uint32_t>(std::get<float>(value));
}

OwnKernel own_kernel(const simt::KernelImage &image, std::string_view name) {
    if (!simt::is_own_image(image)) return OwnKernel::none;
#define QWISP_NAME(kernel) \
    if (name == #kernel) return OwnKernel::kernel;
    QWISP_KERNELS(QWISP_NAME)
#undef QWISP_NAME
    return OwnKernel::none;
}

}  // namespace

CpuKernel::CpuKernel(const simt::KernelImage &image, const simt::FunctionImage &function, FunctionInfo info,
                     const ConstantValues &constants)
    : image_(image), function_(function), info_(std::move(info)), own_(own_kernel(image, info_.name)) {
    for (const FunctionConstant &constant : info_.constants) {
        constants_[constant.index] = bits_of(constants.at(constant.index));
        constants_set_ |= 1u << constant.index;
    }
    threadgroup_memory_ = simt::threadgroup_memory_of(image_, function_, constants_, constants_set_);
}

bool CpuKernel::is_absent(const Argument &argument) const {
    return argument.required_by && constants_[*argument.required_by] == 0;
}

std::string CpuKernel::bind(const Argument &argument, const Binding &binding, simt::Region &region) const {
    const std::string what = "kernel " + info_.name + ": argument '" + argument.name + "' (buffer " +
                             std::to_string(argument.index) + ")";
    if (binding.memory != nullptr) {
        auto &memory = *static_cast<CpuMemory *>(binding.memory);
        if (!memory.holds(binding.offset, binding.length)) {
            return what + ": offset " + std::to_string(binding.offset) + " and length " +
                   std::to_string(binding.length) + " do not fit its buffer";
        }
        region.base = memory.data() + binding.offset;
    } else if (binding.bytes != nullptr) {
        if (argument.writes) return what + " may be written, but bytes are bound";
        region.base = static_cast<std::byte *>(const_cast<void *>(binding.bytes)) + binding.offset;
    } else {
        return what + " is not bound";
    }
    region.length = region.fast_length = binding.length;
    if (argument.is_constant && binding.length < argument.element_size) {
        return what + " needs " + std::to_string(argument.element_size) + " bytes, " +
               std::to_string(binding.length) + " are bound";
    }
    return {};
}

std::string CpuKernel::prepare(const Dispatch &dispatch, simt::Launch &launch) const {
    launch.image = &image_;
    launch.function = &function_;
    launch.constants = constants_;
    launch.constants_set = constants_set_;
    launch.groups = dispatch.groups;
    const auto [x, y, z] = dispatch.threads;
    const uint64_t limit = simt::kMaxThreads;
    if (x > limit || y > limit || z > limit || x * y * z > limit) {
        return "kernel " + info_.name + ": a threadgroup of " + std::to_string(x) + " x " +
               std::to_string(y) + " x " + std::to_string(z) + " threads, the limit is " +
               std::to_string(limit);
    }
    launch.threads = static_cast<uint32_t>(x * y * z);
    launch.label = [bindings = dispatch.bindings](uint32_t slot) {
        return slot < bindings.size() ? bindings[slot].label() : std::string();
    };
    for (uint32_t a = 0; a < function_.argument_count; a++) {
        const Argument &argument = info_.arguments[a];
        simt::Region &region = launch.arguments[argument.index];
        region.name = function_.arguments[a].name;
        region.slot = argument.index;
        if (is_absent(argument)) continue;
        const bool bound = argument.index < dispatch.bindings.size();
        std::string error = bind(argument, bound ? dispatch.bindings[argument.index] : Binding{}, region);
        if (!error.empty()) return error;
    }
    return {};
}

CpuModule::CpuModule(const simt::KernelImage &image) : image_(image) {
    for (uint32_t f = 0; f < image.function_count; f++)
        functions_.push_back(describe(image, image.functions[f]));
}

std::unique_ptr<Kernel> CpuModule::specialise(std::string_view name, const ConstantValues &constants,
                                              std::string *error) {
    const auto found = std::find_if(functions_.begin(), functions_.end(),
                                    [&](const FunctionInfo &info) { return info.name == name; });
    if (found == functions_.end()) {
        *error = "the library has no function '" + std::string(name) + "'";
        return nullptr;
    }
    for (const FunctionConstant &constant : found->constants) {
        const auto value = constants.find(constant.index);
        if (value != constants.end() && value->second.index() == static_cast<size_t>(constant.type)) continue;
        *error = "function '" + found->name + "' needs a value of type " + type_name(constant.type) +
                 " for its function constant '" + constant.name + "' (index " +
                 std::to_string(constant.index) + ")";
        return nullptr;
    }
    const auto &function = image_.functions[found - functions_.begin()];
    return std::make_unique<CpuKernel>(image_, function, *found, constants);
}

}  // namespace qwisp::metal
