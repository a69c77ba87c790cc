#include <cstring>

#include "objects.h"

namespace qwisp::python {
namespace {

constexpr const char *kBufferDoc =
    R"(Memory that the device and this process share, or private to the device, with a shape and a dtype.

Made by Device.buffer and Device.empty. A command buffer keeps the buffers that it uses alive.)";

constexpr const char *kArrayDoc = R"(The buffer's own memory as a numpy array, without a copy.

The array keeps the memory alive. Nothing guards it against a command buffer that is still running: read and
write after CommandBuffer.wait_until_completed.

Raises:
    RuntimeError: the buffer is private to the device.)";

constexpr const char *kCopyDoc = R"(A buffer with a copy of `array`.

Args:
    array: any shape, of bool, (u)int8 to (u)int64 or float16 to float64; C-contiguous. numpy, the buffer
        protocol, or DLPack on the CPU.
    label: a name for error messages and for tools that capture frames.
    private: in memory of the device's own, which the host does not see: on "cuda" the GPU's, where kernels read
        much faster than in shared memory.

Raises:
    TypeError: not an array, or another dtype.
    ValueError: not contiguous, or not on the CPU.
    MemoryError: the device does not have it.
    DeviceError: the copy to private memory failed.)";

constexpr const char *kEmptyDoc = R"(A buffer of zeros.

Args:
    shape: an int or a sequence of ints, each >= 0.
    dtype: bool, (u)int8 to (u)int64 or float16 to float64.
    label: a name for error messages and for tools that capture frames.

Raises:
    TypeError, ValueError: a wrong dtype or shape.
    MemoryError: the device does not have it.)";

Shape shape_value(const py::object &value) {
    if (PyIndex_Check(value.ptr())) return {integer("shape", Arg<int64_t>{value})};
    if (!PySequence_Check(value.ptr()) || PyUnicode_Check(value.ptr())) {
        wrong_type("shape", value, "an int or a sequence of ints");
    }
    Shape shape;
    if (py::len(value) > kMaxDimensions) {
        wrong_value("shape: " + std::to_string(py::len(value)) + " dimensions, but it must have at most " +
                    std::to_string(kMaxDimensions));
    }
    for (const py::handle &extent : value) {
        shape.push_back(integer("shape", Arg<int64_t>{py::reinterpret_borrow<py::object>(extent)}));
    }
    return shape;
}

std::string label_value(const Arg<std::optional<std::string>> &label) {
    return label.is_none() ? std::string() : text("label", Arg<std::string>{label.value});
}

using BufferHandle = std::shared_ptr<BufferObject>;

BufferHandle make_buffer(const Self<DeviceObject> &self, const Arg<ArrayInput> &value,
                         const Arg<std::optional<std::string>> &label, const Arg<bool> &private_arg) {
    using enum Element;
    const HostArray array(
        "array", value.value,
        {boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64});
    auto buffer = std::make_shared<BufferObject>(
        BufferObject{self.held, array.element(), array.shape(), label_value(label), {}});
    const bool is_private = flag("private", private_arg);
    const auto context = self->context();
    without_gil([&] {
        AutoreleaseScope pool;
        const void *const bytes = array.memory().data();
        const char *const name = buffer->label.c_str();
        buffer->memory = is_private ? new_private_buffer(context->queue(), bytes, array.bytes(), name)
                                    : new_shared_buffer(context->device(), bytes, array.bytes(), name);
    });
    return buffer;
}

BufferHandle make_empty(const Self<DeviceObject> &self, const Arg<ShapeInput> &shape,
                        const Arg<DtypeInput> &dtype, const Arg<std::optional<std::string>> &label) {
    auto buffer = std::make_shared<BufferObject>(BufferObject{
        self.held, element("dtype", dtype.value), shape_value(shape.value), label_value(label), {}});
    MTL::Device *device = self->metal();
    const size_t bytes = buffer->bytes();
    without_gil([&] {
        AutoreleaseScope pool;
        buffer->memory = new_shared_buffer(device, bytes, buffer->label.c_str());
    });
    return buffer;
}

}  // namespace

void check_buffer(const char *name, const BufferObject &buffer, const DevicePtr &device, Element wanted) {
    if (buffer.element != wanted) {
        throw py::type_error(std::string(name) + ": dtype " + info(buffer.element).name +
                             ", but it must be " + info(wanted).name);
    }
    if (buffer.device != device) wrong_value(std::string(name) + ": made by another Device than the gate");
}

void bind_buffer(py::module_ &module) {
    using Buffer = Self<BufferObject>;
    auto device = py::reinterpret_borrow<py::class_<DeviceObject, DevicePtr>>(module.attr("Device"));
    shared_class<BufferObject>(module, "Buffer", kBufferDoc)
        .def_property_readonly(
            "array",
            [](const Buffer &self) -> Named<AnyArray> {
                if (!self->memory->contents()) {
                    throw std::runtime_error("array: the buffer is private to the device");
                }
                return view(self->element, self->shape, self->memory->contents(), self.object, true);
            },
            kArrayDoc)
        .def_property_readonly(
            "shape",
            [](const Buffer &self) -> py::typing::Tuple<py::int_, py::ellipsis> {
                return py::tuple(py::cast(self->shape));
            },
            "A tuple of ints.")
        .def_property_readonly(
            "dtype", [](const Buffer &self) { return numpy_dtype(self->element); }, "A numpy dtype.")
        .def_property_readonly(
            "nbytes", [](const Buffer &self) { return self->bytes(); }, "In bytes.")
        .def_property_readonly(
            "label", [](const Buffer &self) { return self->label; }, "\"\" if it has none.")
        .def_property_readonly(
            "device", [](const Buffer &self) { return self->device; }, "Where it was made.")
        .def("__repr__", [](const Buffer &self) {
            return std::string("Buffer(") + info(self->element).name + " " + shown(self->shape) +
                   (self->label.empty() ? "" : ", '" + self->label + "'") + ")";
        });
    device
        .def("buffer", &make_buffer, py::arg("array"), py::arg("label") = py::none(), py::kw_only(),
             py::arg("private") = false, kCopyDoc)
        .def("empty", &make_empty, py::arg("shape"), py::arg("dtype"), py::arg("label") = py::none(),
             kEmptyDoc);
}

}  // namespace qwisp::python
