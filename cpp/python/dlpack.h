// The part of DLPack's binary interface that is used here (its version 0; a capsule is called "dltensor").
#pragma once
#include <cstdint>

namespace qwisp::python::dlpack {

inline constexpr const char *kFresh = "dltensor", *kUsed = "used_dltensor";

struct Device {
    int32_t type, index;
};
struct DataType {
    uint8_t code, bits;
    uint16_t lanes;
};
enum Code : uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
struct Tensor {
    void *data;
    Device device;
    int32_t dimensions;
    DataType type;
    int64_t *shape;
    int64_t *strides;  // in elements; null: C-contiguous
    uint64_t byte_offset;
};
struct ManagedTensor {
    Tensor tensor;
    void *context;
    void (*deleter)(ManagedTensor *);
};

}  // namespace qwisp::python::dlpack
