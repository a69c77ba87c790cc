// What a device says of a failure, in its own words.
#pragma once
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <string>

namespace qwisp {

// The error's localizedDescription, or `otherwise` where there is none.
std::string failure_text(const NS::Error *error, const char *otherwise = "the device gives no reason");

// Throws DeviceError if a completed command buffer failed.
void throw_if_failed(const MTL::CommandBuffer *commands);

}  // namespace qwisp
