// The devices that can be used now.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <string>
#include <vector>

namespace qwisp {

struct DeviceEntry {
    std::string kind;  // "metal": Metal's own devices; "cpu": the software device
    std::string name;
    NS::SharedPtr<MTL::Device> device;
};

// Metal's own devices first, then the software devices; each device once.
std::vector<DeviceEntry> available_devices();

}  // namespace qwisp
