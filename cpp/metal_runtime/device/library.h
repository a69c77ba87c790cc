// Libraries, functions and function constants.
#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "metal_runtime/device/device.h"

namespace qwisp::metal {

// What a host stored in an MTL::FunctionConstantValues; checked when a function is made from it.
struct StoredConstant {
    MTL::DataType type;
    std::array<std::byte, 4> bytes;  // of the types that kernels here can use
};
struct StoredConstants {
    std::map<NS::UInteger, StoredConstant> by_index;
    std::map<std::string, StoredConstant> by_name;

    void set(const void *values, MTL::DataType type, NS::Range range);
    void set(const void *value, MTL::DataType type, const NS::String *name);
};
const StoredConstants *stored_constants(const MTL::FunctionConstantValues *values);

struct LibraryState {
    const DeviceCore *core() const { return shared.get(); }

    NS::SharedPtr<MTL::Device> device;
    std::shared_ptr<DeviceCore> shared;
    std::shared_ptr<Module> module;
    Label label = {};
};

struct FunctionState {
    const DeviceCore *core() const { return shared.get(); }

    NS::SharedPtr<MTL::Device> device;
    std::shared_ptr<DeviceCore> shared;
    std::shared_ptr<Module> module;
    const FunctionInfo *info;                 // of the module
    std::optional<ConstantValues> constants;  // nothing: made without values
    Label label = {};
};

const objc::PayloadClass<LibraryState> &library_class();
const objc::PayloadClass<FunctionState> &function_class();

// Null, and an error, if the source does not compile.
MTL::Library *new_library(MTL::Device *device, const NS::String *source, const MTL::CompileOptions *options,
                          NS::Error **error);

}  // namespace qwisp::metal
