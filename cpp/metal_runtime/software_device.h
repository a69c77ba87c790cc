// Metal devices made of software.
//
// Off macOS they are also what MTL::CreateSystemDefaultDevice() and MTL::CopyAllDevices() return. On macOS,
// where those return Apple's devices, only the functions here give them.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <cstdint>
#include <memory>
#include <optional>

#include "metal_runtime/device/driver.h"
#include "metal_runtime/device/validation.h"

// The cpu device, always the same object. Owned by the caller.
extern "C" NS::Array *qwisp_copy_software_devices();

namespace qwisp::metal {

// Another device over any driver. Owned by the caller; the driver lives as long as anything made from the
// device.
MTL::Device *new_device(std::shared_ptr<Driver> driver);

// Null if `device` is null or one of Apple's.
Driver *driver_of(const MTL::Device *device);

// The order in which kernels' threads and threadgroups run: shuffled by a seed, or natural. It applies to
// what is executed from now on. False: this device has no such choice.
bool set_shuffle_seed(const MTL::Device *device, std::optional<uint64_t> seed);
std::optional<uint64_t> shuffle_seed(const MTL::Device *device);

}  // namespace qwisp::metal
