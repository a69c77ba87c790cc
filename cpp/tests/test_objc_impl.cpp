// The private implementation of metal-cpp and doctest's main for qwisp_test_objc.
#define NS_PRIVATE_IMPLEMENTATION
#define MTL_PRIVATE_IMPLEMENTATION
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#if !defined(__APPLE__)
// This test has no device; metal-cpp's private implementation refers to these.
extern "C" {
MTL::Device *MTLCreateSystemDefaultDevice() { return nullptr; }
NS::Array *MTLCopyAllDevices() { return nullptr; }
NS::Array *MTLCopyAllDevicesWithObserver(NS::Object **, MTL::DeviceNotificationHandlerBlock) {
    return nullptr;
}
void MTLRemoveDeviceObserver(const NS::Object *) {}
}
#endif
