#include "metal_runtime/software_device.h"

#include "metal_runtime/device/buffer.h"
#include "metal_runtime/device/command_buffer.h"
#include "metal_runtime/device/device.h"
#include "metal_runtime/drivers/cpu/cpu_driver.h"
#if !defined(__APPLE__)
#include "metal_runtime/drivers/cuda/cubin_cache.h"
#include "metal_runtime/drivers/cuda/cuda_driver.h"
#include "metal_runtime/drivers/cuda/nvrtc.h"
#endif

namespace qwisp::metal {
namespace {

// Made at first use and never destroyed: hosts and queue threads may use it while the process exits.
MTL::Device *cpu_device() {
    static MTL::Device *const device = new_device(std::make_shared<CpuDriver>());
    return device;
}

#if defined(__APPLE__)
struct CudaDevice {
    MTL::Device *device = nullptr;
    std::string why = "no NVIDIA GPU works with macOS";
};
#else
struct CudaDevice {
    MTL::Device *device = nullptr;
    std::string why;

    CudaDevice() {
        if (auto driver = find_cuda_driver(&why)) device = new_device(std::move(driver));
    }
};
#endif

const CudaDevice &cuda_device() {
    static const CudaDevice *const once = new CudaDevice;
    return *once;
}

}  // namespace

std::string why_no_cuda_device() { return cuda_device().why; }

#if defined(__APPLE__)
void set_up_cuda(std::vector<std::string>, std::string) {}
#else
void set_up_cuda(std::vector<std::string> nvrtc_paths, std::string cache_folder) {
    cuda::set_nvrtc_paths(std::move(nvrtc_paths));
    cuda::set_cubin_folder(std::move(cache_folder));
}
#endif

Driver *driver_of(const MTL::Device *device) {
    const DeviceCore *const core = core_of(device);
    return core ? core->driver.get() : nullptr;
}

Streams *streams_of(const MTL::Device *device) {
    Driver *const driver = driver_of(device);
    return driver ? driver->streams() : nullptr;
}

MTL::Buffer *new_foreign_buffer(MTL::Device *device, uint64_t address, size_t length) {
    return new_buffer(device, streams_of(device)->wrap(address, length), length);
}

void commit_on_stream(MTL::CommandBuffer *commands, Stream stream) {
    auto &state = objc::payload<CommandBufferState>(commands);
    state.commit_on_stream(*state.core()->driver->streams(), stream);
}

bool set_shuffle_seed(const MTL::Device *device, std::optional<uint64_t> seed) {
    Driver *const driver = driver_of(device);
    if (!driver) return false;
    driver->set_shuffle_seed(seed);
    return driver->shuffle_seed() == seed;
}

std::optional<uint64_t> shuffle_seed(const MTL::Device *device) {
    const Driver *const driver = driver_of(device);
    return driver ? driver->shuffle_seed() : std::nullopt;
}

}  // namespace qwisp::metal

using qwisp::metal::cpu_device;
using qwisp::metal::cuda_device;

extern "C" {

NS::Array *qwisp_copy_software_devices() {
    const qwisp::metal::PoolScope pool;
    MTL::Device *const devices[] = {cpu_device(), cuda_device().device};
    const bool has_cuda = devices[1] != nullptr;
    const NS::Object *const listed[] = {has_cuda ? devices[1] : devices[0], devices[0]};
    return NS::Array::array(listed, has_cuda ? 2 : 1)->retain();
}

#if !defined(__APPLE__)
MTL::Device *MTLCreateSystemDefaultDevice() { return cpu_device()->retain(); }

NS::Array *MTLCopyAllDevices() { return qwisp_copy_software_devices(); }

// Software devices neither come nor go: there is nothing to observe.
NS::Array *MTLCopyAllDevicesWithObserver(NS::Object **observer, MTL::DeviceNotificationHandlerBlock) {
    if (observer) *observer = nullptr;
    return qwisp_copy_software_devices();
}
void MTLRemoveDeviceObserver(const NS::Object *) {}
#endif

}  // extern "C"
