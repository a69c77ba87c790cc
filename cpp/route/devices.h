// The devices that can be used now.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <string>
#include <vector>

namespace qwisp {

struct DeviceEntry {
    std::string kind;  // "metal": Apple's devices; "cuda": an NVIDIA GPU; "cpu": the software device
    std::string name;
    NS::SharedPtr<MTL::Device> device;
};

// The best first; each device once.
std::vector<DeviceEntry> available_devices();

}  // namespace qwisp
