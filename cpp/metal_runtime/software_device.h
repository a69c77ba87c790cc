// Metal devices that are not Apple's: made of software, or of another maker's hardware.
//
// Off macOS they are also what MTL::CreateSystemDefaultDevice() and MTL::CopyAllDevices() return. On macOS,
// where those return Apple's devices, only the functions here give them.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metal_runtime/device/driver.h"
#include "metal_runtime/device/streams.h"
#include "metal_runtime/device/validation.h"

// The cuda device, where there is one that can be used, and the cpu device; always the same objects. Owned by
// the caller.
extern "C" NS::Array *qwisp_copy_software_devices();

namespace qwisp::metal {

// Why there is no cuda device; empty if there is one.
std::string why_no_cuda_device();
// For the cuda device, before the first call of anything else here: more places to look for the runtime
// compiler, and the folder that keeps its results (empty: none).
void set_up_cuda(std::vector<std::string> nvrtc_paths, std::string cache_folder);

// Another device over any driver. Owned by the caller; the driver lives as long as anything made from the
// device.
MTL::Device *new_device(std::shared_ptr<Driver> driver);

// Null if `device` is null or one of Apple's.
Driver *driver_of(const MTL::Device *device);

// For callers with work of their own on the device, past this Metal (PyTorch, say). Null: this device has
// none.
Streams *streams_of(const MTL::Device *device);
// A buffer over memory of the device that the caller keeps alive for as long as commands use it. Owned by the
// caller. For devices with streams only.
MTL::Buffer *new_foreign_buffer(MTL::Device *device, uint64_t address, size_t length);
// Instead of commit(): puts the commands onto a stream of the caller's and returns. For the host the command
// buffer has then completed, or failed, and holds on to nothing: the caller keeps alive what it uses. For
// devices with streams only.
void commit_on_stream(MTL::CommandBuffer *commands, Stream stream);

// The order in which kernels' threads and threadgroups run: shuffled by a seed, or natural. It applies to
// what is executed from now on. False: this device has no such choice.
bool set_shuffle_seed(const MTL::Device *device, std::optional<uint64_t> seed);
std::optional<uint64_t> shuffle_seed(const MTL::Device *device);

}  // namespace qwisp::metal
