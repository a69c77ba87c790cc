#include "route/devices.h"

#include <algorithm>

#include "metal_runtime/software_device.h"
#include "route/buffer.h"

namespace qwisp {
namespace {

using DeviceList = std::vector<NS::SharedPtr<MTL::Device>>;

// `array` is owned by the caller, as the Copy functions return it.
DeviceList take(NS::Array *array) {
    const auto owned = NS::TransferPtr(array);
    DeviceList devices;
    for (NS::UInteger i = 0; owned && i < owned->count(); ++i) {
        devices.push_back(NS::RetainPtr(owned->object<MTL::Device>(i)));
    }
    return devices;
}

DeviceEntry entry(std::string kind, const NS::SharedPtr<MTL::Device> &device) {
    return {std::move(kind), device->name()->utf8String(), device};
}

}  // namespace

std::vector<DeviceEntry> available_devices() {
    AutoreleaseScope pool;
    const DeviceList software = take(qwisp_copy_software_devices());
    std::vector<DeviceEntry> entries;
    for (const auto &device : take(MTL::CopyAllDevices())) {
        // Where there is no Metal but ours, the software device is among Metal's own.
        if (std::find(software.begin(), software.end(), device) == software.end()) {
            entries.push_back(entry("metal", device));
        }
    }
    for (const auto &device : software) {
        entries.push_back(entry(std::string(metal::driver_of(device.get())->name()), device));
    }
    return entries;
}

}  // namespace qwisp
