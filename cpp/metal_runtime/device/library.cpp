#include "metal_runtime/device/library.h"

#include <algorithm>
#include <cstring>

namespace qwisp::metal {
namespace {

MTL::DataType data_type(ConstantType type) {
    switch (type) {
        case ConstantType::boolean:
            return MTL::DataTypeBool;
        case ConstantType::uint32:
            return MTL::DataTypeUInt;
        case ConstantType::float32:
            break;
    }
    return MTL::DataTypeFloat;
}

struct ConstantState {
    FunctionConstant constant;
};

const objc::PayloadClass<ConstantState> &constant_class() {
    static const auto cls =
        objc::PayloadClass<ConstantState>("QwispFunctionConstant")
            .method("name", [](const ConstantState &self) { return ns_string(self.constant.name); })
            .method("index", [](const ConstantState &self) -> NS::UInteger { return self.constant.index; })
            .method("type", [](const ConstantState &self) { return data_type(self.constant.type); })
            .method("required", [](const ConstantState &) { return true; })
            .registered();
    return cls;
}

NS::Dictionary *constants_dictionary(const FunctionInfo &info) {
    std::vector<NS::Object *> constants, names;
    for (const FunctionConstant &constant : info.constants) {
        constants.push_back(constant_class().create<NS::Object>(ConstantState{constant})->autorelease());
        names.push_back(ns_string(constant.name));
    }
    return NS::Dictionary::dictionary(constants.data(), names.data(), constants.size());
}

std::variant<bool, uint32_t, float> value_of(ConstantType type, const StoredConstant &stored) {
    uint32_t bits;
    std::memcpy(&bits, stored.bytes.data(), sizeof bits);
    if (type == ConstantType::boolean) return bits != 0;
    if (type == ConstantType::uint32) return bits;
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

const StoredConstant *find(const StoredConstants &stored, const FunctionConstant &constant) {
    const auto by_name = stored.by_name.find(constant.name);
    if (by_name != stored.by_name.end()) return &by_name->second;
    const auto by_index = stored.by_index.find(constant.index);
    return by_index == stored.by_index.end() ? nullptr : &by_index->second;
}

// A value for each constant of the function, or the reason why not.
std::optional<ConstantValues> resolve(const FunctionInfo &info, const StoredConstants &stored,
                                      std::string *why) {
    ConstantValues values;
    for (const FunctionConstant &constant : info.constants) {
        const std::string name = "function " + info.name + ": function constant " + constant.name +
                                 " (index " + std::to_string(constant.index) + ")";
        const StoredConstant *const found = find(stored, constant);
        if (!found) {
            *why = name + " has no value; it needs a " + type_name(constant.type);
            return std::nullopt;
        }
        if (found->type != data_type(constant.type)) {
            *why = name + " was set with MTL::DataType " + std::to_string(found->type) + ", but it is a " +
                   type_name(constant.type) + " (MTL::DataType " + std::to_string(data_type(constant.type)) +
                   ")";
            return std::nullopt;
        }
        values.emplace(constant.index, value_of(constant.type, *found));
    }
    return values;
}

MTL::Function *new_function(const LibraryState &self, const NS::String *name, NS::Error **error) {
    if (!name) refuse(Misuse::null_argument, "newFunction: name is null");
    const std::string wanted = *text_of(name);
    const auto &functions = self.module->functions();
    const auto found = std::find_if(functions.begin(), functions.end(),
                                    [&](const auto &info) { return info.name == wanted; });
    if (found == functions.end()) {
        report(error, kLibraryErrorDomain, MTL::LibraryErrorFunctionNotFound,
               "the library has no function " + wanted);
        return nullptr;
    }
    return function_class().create<MTL::Function>(
        FunctionState{self.device, self.shared, self.module, &*found, std::nullopt});
}

MTL::Function *new_function(const LibraryState &self, const NS::String *name,
                            const MTL::FunctionConstantValues *values, NS::Error **error) {
    if (!values) refuse(Misuse::null_argument, "newFunction: constantValues is null");
    auto function = NS::TransferPtr(new_function(self, name, error));
    if (!function) return nullptr;
    const StoredConstants none;
    const StoredConstants *const stored = stored_constants(values);
    FunctionState &state = objc::payload<FunctionState>(function.get());
    std::string why;
    state.constants = resolve(*state.info, stored ? *stored : none, &why);
    if (!state.constants) {
        report(error, kLibraryErrorDomain, MTL::LibraryErrorCompileFailure, why);
        return nullptr;
    }
    MTL::Function *const result = function.get();
    function.detach();
    return result;
}

NS::Array *function_names(const LibraryState &self) {
    std::vector<NS::Object *> names;
    for (const FunctionInfo &info : self.module->functions()) names.push_back(ns_string(info.name));
    return ns_array(names);
}

std::map<std::string, std::string> macros_of(const MTL::CompileOptions *options) {
    std::map<std::string, std::string> macros;
    NS::Dictionary *const dictionary = options ? options->preprocessorMacros() : nullptr;
    if (!dictionary) return macros;
    auto *const names = dictionary->keyEnumerator<NS::String>();
    while (NS::String *const name = names->nextObject()) {
        NS::Object *const value = dictionary->object(name);
        const Class cls = object_getClass(reinterpret_cast<id>(value));
        const bool is_number = class_respondsToSelector(cls, sel_registerName("stringValue"));
        macros[*text_of(name)] = *text_of(is_number ? static_cast<NS::Number *>(value)->stringValue()
                                                    : static_cast<NS::String *>(value));
    }
    return macros;
}

}  // namespace

void StoredConstants::set(const void *values, MTL::DataType type, NS::Range range) {
    if (!values) refuse(Misuse::null_argument, "setConstantValues: values is null");
    const size_t size = type == MTL::DataTypeBool ? sizeof(bool) : 4;
    const bool known = type == MTL::DataTypeBool || type == MTL::DataTypeUInt || type == MTL::DataTypeInt ||
                       type == MTL::DataTypeFloat;
    for (NS::UInteger i = 0; i < range.length; ++i) {
        StoredConstant stored{type, {}};
        if (known) std::memcpy(stored.bytes.data(), static_cast<const std::byte *>(values) + i * size, size);
        by_index.insert_or_assign(range.location + i, stored);
    }
}

void StoredConstants::set(const void *value, MTL::DataType type, const NS::String *name) {
    if (!name) refuse(Misuse::null_argument, "setConstantValue: name is null");
    StoredConstants one;
    one.set(value, type, NS::Range(0, 1));
    by_name.insert_or_assign(*text_of(name), one.by_index.at(0));
}

const objc::PayloadClass<LibraryState> &library_class() {
    static const auto cls =
        objc::PayloadClass<LibraryState>("QwispLibrary")
            .method("device", [](const LibraryState &self) { return self.device.get(); })
            .method("label", [](const LibraryState &self) { return ns_string(self.label.get()); })
            .method("setLabel:",
                    [](LibraryState &self, NS::String *label) { self.label.set(text_of(label)); })
            .method("type", [](const LibraryState &) { return MTL::LibraryTypeExecutable; })
            .method("installName", [](const LibraryState &) -> NS::String * { return nullptr; })
            .method("functionNames", [](const LibraryState &self) { return function_names(self); })
            .method(
                "newFunctionWithName:",
                [](const LibraryState &self, NS::String *name) { return new_function(self, name, nullptr); })
            .method("newFunctionWithName:constantValues:error:",
                    [](const LibraryState &self, NS::String *name, MTL::FunctionConstantValues *values,
                       NS::Error **error) { return new_function(self, name, values, error); })
            .registered();
    return cls;
}

const objc::PayloadClass<FunctionState> &function_class() {
    static const auto cls =
        objc::PayloadClass<FunctionState>("QwispFunction")
            .method("device", [](const FunctionState &self) { return self.device.get(); })
            .method("name", [](const FunctionState &self) { return ns_string(self.info->name); })
            .method("label", [](const FunctionState &self) { return ns_string(self.label.get()); })
            .method("setLabel:",
                    [](FunctionState &self, NS::String *label) { self.label.set(text_of(label)); })
            .method("functionType", [](const FunctionState &) { return MTL::FunctionTypeKernel; })
            .method("options", [](const FunctionState &) { return MTL::FunctionOptionNone; })
            .method("functionConstantsDictionary",
                    [](const FunctionState &self) { return constants_dictionary(*self.info); })
            .registered();
    return cls;
}

MTL::Library *new_library(MTL::Device *device, const NS::String *source, const MTL::CompileOptions *options,
                          NS::Error **error) {
    if (!source) refuse(Misuse::null_argument, "newLibrary: source is null");
    const auto core = objc::payload<DeviceState>(device).core;
    std::string why;
    std::shared_ptr<Module> module = core->driver->compile(*text_of(source), macros_of(options), &why);
    if (!module) {
        report(error, kLibraryErrorDomain, MTL::LibraryErrorCompileFailure, why);
        return nullptr;
    }
    return library_class().create<MTL::Library>(LibraryState{NS::RetainPtr(device), core, std::move(module)});
}

}  // namespace qwisp::metal
