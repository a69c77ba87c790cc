// Arrays in the device's own memory: those that DLPack brings, and those that routes leave.
#pragma once
#include "objects.h"

namespace qwisp::python {

inline constexpr int32_t kCudaDevice = 2;  // of DLPack's device types
inline constexpr int32_t kCudaIndex = 0;   // the driver's device is the first of the process

struct DeviceRows {
    uint64_t address;
    Shape shape;
    std::shared_ptr<void> keep;  // to be dropped with the GIL
};
// Of a capsule, which is used up. TypeError (no capsule, not float16), ValueError (layout, device).
DeviceRows device_rows(const char *name, const py::object &capsule);

struct DeviceArrayObject {
    DevicePtr device;
    std::shared_ptr<StreamResults> results;
    BufferPtr memory;  // one of them
    Element element;
    Shape shape;

    size_t bytes() const { return byte_count(element, shape); }
};

}  // namespace qwisp::python
