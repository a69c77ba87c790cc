// The device: what all objects made from one driver share.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "metal_runtime/device/driver.h"
#include "metal_runtime/device/fork.h"
#include "metal_runtime/device/ns.h"
#include "metal_runtime/device/validation.h"
#include "metal_runtime/objc/define_class.h"

namespace qwisp::metal {

struct DeviceCore final : ForkListener {
    explicit DeviceCore(std::shared_ptr<Driver> driver_);

    void recover_in_child() override { driver->after_fork_in_child(); }

    const std::shared_ptr<Driver> driver;
    const Limits limits;
    std::atomic<size_t> allocated = 0;  // bytes of the buffers that exist
    const ForkRegistration registration{this};
};

struct DeviceState {
    std::shared_ptr<DeviceCore> core;
};

const objc::PayloadClass<DeviceState> &device_class();

// Owned by the caller. The driver lives as long as anything made from it.
MTL::Device *new_device(std::shared_ptr<Driver> driver);
// Null if `device` is null or no software device.
DeviceCore *core_of(const MTL::Device *device);

[[noreturn]] inline void refuse(Misuse misuse, const std::string &message) {
    throw ValidationError(misuse, message);
}

// A thing made by a device, as the methods of its class find it in an argument: null and foreign ones are
// refused.
template <class T>
T &argument(const objc::PayloadClass<T> &cls, const void *object, const DeviceCore *device, const char *call,
            const char *what) {
    if (!object) refuse(Misuse::null_argument, std::string(call) + ": " + what + " is null");
    T *const found = cls.find(object);
    if (!found || found->core() != device) {
        refuse(Misuse::foreign_object, std::string(call) + ": " + what + " was not made by this device");
    }
    return *found;
}

}  // namespace qwisp::metal
