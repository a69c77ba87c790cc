#include "metal_runtime/software_device.h"

#include "metal_runtime/device/device.h"
#include "metal_runtime/drivers/cpu/cpu_driver.h"

namespace qwisp::metal {
namespace {

// Made at first use and never destroyed: hosts and queue threads may use it while the process exits.
MTL::Device *cpu_device() {
    static MTL::Device *const device = new_device(std::make_shared<CpuDriver>());
    return device;
}

}  // namespace

Driver *driver_of(const MTL::Device *device) {
    const DeviceCore *const core = core_of(device);
    return core ? core->driver.get() : nullptr;
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

extern "C" {

NS::Array *qwisp_copy_software_devices() {
    const qwisp::metal::PoolScope pool;
    return NS::Array::array(cpu_device())->retain();
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
