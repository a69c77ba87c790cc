#include "device_array.h"

#include <cstring>

#include "dlpack.h"

namespace qwisp::python {
namespace {

constexpr const char *kDeviceArrayDoc =
    R"(An array in the device's own memory: what a Router leaves of CUDA tensors.

torch.from_dlpack(array) and others like it take it without a copy, in the order of streams: what the consumer's stream
is given afterwards sees the results. The memory is used again once no array and no tensor made from one is left, in
the order of the call's stream and after what the consumers' streams were given by then; those streams must still
exist. What a captured call leaves is overwritten by each replay.

Made by Router only.)";

constexpr const char *kDlpackDoc = R"(The exchange protocol of the array API.

Args:
    stream: the consumer's: None or 1 (the legacy default stream), 2 (the thread's own), a stream's handle, or -1: no
        stream waits, and none is waited for.
    max_version, dl_device, copy: as the array API has them; there are no copies and no other devices.

Raises:
    BufferError: a copy or another device is asked for.
    TypeError, ValueError: no stream; one that captures a graph in which this array was not made.
    DeviceError: the device failed.)";

constexpr const char *kNumpyDoc = R"(A copy on the host. Blocks until the array is written.

Raises:
    RuntimeError: the call's stream is capturing a graph.
    DeviceError: the device failed, perhaps in what ran before.)";

// A stub's class with a method called numpy cannot name the module.
struct HostCopy {
    static constexpr auto text = py::detail::const_name("qwisp_native.arrays.AnyArray");
};
struct HostDtype {
    static constexpr auto text = py::detail::const_name("qwisp_native.arrays.AnyDtype");
};

std::string type_name(const dlpack::DataType &type) {
    const char *name = "DLPack type code";
    switch (type.code) {
        case dlpack::kInt:
            name = "int";
            break;
        case dlpack::kUint:
            name = "uint";
            break;
        case dlpack::kFloat:
            name = "float";
            break;
        case dlpack::kBfloat:
            name = "bfloat";
            break;
        case dlpack::kComplex:
            name = "complex";
            break;
        case dlpack::kBool:
            return "bool";
        default:
            return std::string(name) + " " + std::to_string(type.code);
    }
    return name + std::to_string(type.bits) + (type.lanes == 1 ? "" : " x " + std::to_string(type.lanes));
}

bool is_c_contiguous(const dlpack::Tensor &tensor) {
    if (!tensor.strides) return true;
    int64_t expected = 1;
    bool contiguous = true;
    for (int32_t i = tensor.dimensions; i-- > 0;) {
        if (tensor.shape[i] == 0) return true;
        if (tensor.shape[i] != 1) contiguous = contiguous && tensor.strides[i] == expected;
        expected *= tensor.shape[i];
    }
    return contiguous;
}

// A capsule's content while it is on its way to a consumer, and after that the consumer's.
struct Exported {
    dlpack::ManagedTensor managed;
    int64_t shape[2], strides[2];
    std::shared_ptr<StreamResults> results;
};

void drop_exported(dlpack::ManagedTensor *managed) { delete static_cast<Exported *>(managed->context); }

void drop_unused(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, dlpack::kFresh)) return;  // a consumer has it
    drop_exported(static_cast<dlpack::ManagedTensor *>(PyCapsule_GetPointer(capsule, dlpack::kFresh)));
}

py::object export_array(const DeviceArrayObject &array) {
    auto exported = std::make_unique<Exported>();
    exported->results = array.results;
    dlpack::Tensor &tensor = exported->managed.tensor;
    for (size_t i = 0; i < 2; ++i) exported->shape[i] = array.shape[i];
    exported->strides[0] = array.shape[1];
    exported->strides[1] = 1;
    tensor.data = reinterpret_cast<void *>(array.memory->gpuAddress());
    tensor.device = {kCudaDevice, kCudaIndex};
    tensor.dimensions = 2;
    const uint8_t code = info(array.element).kind == 'f' ? dlpack::kFloat : dlpack::kInt;
    tensor.type = {code, uint8_t(8 * info(array.element).size), 1};
    tensor.shape = exported->shape;
    tensor.strides = exported->strides;
    exported->managed.context = exported.get();
    exported->managed.deleter = drop_exported;
    PyObject *const capsule = PyCapsule_New(&exported->managed, dlpack::kFresh, drop_unused);
    if (!capsule) throw py::error_already_set();
    exported.release();
    return py::reinterpret_steal<py::object>(capsule);
}

py::object to_dlpack(const Self<DeviceArrayObject> &self, const py::object &stream, const py::object &,
                     const py::object &device, const py::object &copy) {
    if (!copy.is_none() && flag("copy", Arg<bool>{copy})) {
        throw py::buffer_error("copy: True, but it must be None or False: there are no copies");
    }
    if (!device.is_none() && !device.equal(py::make_tuple(kCudaDevice, kCudaIndex))) {
        throw py::buffer_error("dl_device: " + shown(device) +
                               ", but it must be None or (2, 0), where it is");
    }
    self->device->context();
    const py::object numbered = stream.is_none() ? py::int_(1) : stream;
    const auto other =
        py::cast<int64_t>(py::module_::import("qwisp_native.streams").attr("handle")(numbered));
    if (other != -1) without_gil([&] { self->results->hand_to(metal::Stream(other)); });
    return export_array(*self);
}

Named<HostCopy> to_numpy(const Self<DeviceArrayObject> &self) {
    const auto &context = self->device->context();
    py::array copy = empty(self->element, {self->shape[0], self->shape[1]});
    void *const to = copy.mutable_data();
    without_gil([&] {
        self->results->finish();
        read_buffer(context->queue(), self->memory.get(), to, self->bytes());
    });
    return copy;
}

}  // namespace

DeviceRows device_rows(const char *name, const py::object &capsule) {
    if (!PyCapsule_IsValid(capsule.ptr(), dlpack::kFresh)) {
        throw py::type_error(std::string(name) + ": __dlpack__ gives " + type_shown(capsule) +
                             ", but it must give a fresh capsule 'dltensor'");
    }
    auto *const managed =
        static_cast<dlpack::ManagedTensor *>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kFresh));
    PyCapsule_SetName(capsule.ptr(), dlpack::kUsed);
    DeviceRows rows;
    rows.keep = std::shared_ptr<void>(managed, [managed](void *) {
        if (managed->deleter) managed->deleter(managed);
    });
    const dlpack::Tensor &tensor = managed->tensor;
    if (tensor.dimensions > 0) rows.shape.assign(tensor.shape, tensor.shape + tensor.dimensions);
    rows.address = reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset;
    if (tensor.type.code != dlpack::kFloat || tensor.type.bits != 16 || tensor.type.lanes != 1) {
        throw py::type_error(std::string(name) + ": dtype " + type_name(tensor.type) +
                             ", but it must be float16");
    }
    if (tensor.device.type != kCudaDevice || tensor.device.index != kCudaIndex) {
        wrong_value(std::string(name) + ": on DLPack device (" + std::to_string(tensor.device.type) + ", " +
                    std::to_string(tensor.device.index) + "), but it must be on (2, 0)");
    }
    if (!is_c_contiguous(tensor)) {
        const Shape strides(tensor.strides, tensor.strides + tensor.dimensions);
        wrong_value(std::string(name) + ": shape " + shown(rows.shape) + " with strides " + shown(strides) +
                    " (elements), but it must be C-contiguous (torch: x.contiguous() makes a copy that is)");
    }
    if (rows.address % 2 != 0) {
        wrong_value(std::string(name) + ": at address " + std::to_string(rows.address) +
                    ", but it must be a multiple of 2");
    }
    return rows;
}

void bind_device_array(py::module_ &module) {
    using DeviceArray = Self<DeviceArrayObject>;
    shared_class<DeviceArrayObject>(module, "DeviceArray", kDeviceArrayDoc)
        .def("__dlpack__", &to_dlpack, py::kw_only(), py::arg("stream") = py::none(),
             py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
             py::arg("copy") = py::none(), kDlpackDoc)
        .def(
            "__dlpack_device__",
            [](const DeviceArray &) { return std::pair<int, int>(kCudaDevice, kCudaIndex); },
            "DLPack's type and number of the device: (2, 0), the first CUDA device.")
        .def("numpy", &to_numpy, kNumpyDoc)
        .def_property_readonly(
            "shape",
            [](const DeviceArray &self) -> py::typing::Tuple<py::int_, py::ellipsis> {
                return py::tuple(py::cast(self->shape));
            },
            "A tuple of ints.")
        .def_property_readonly(
            "dtype", [](const DeviceArray &self) -> Named<HostDtype> { return numpy_dtype(self->element); },
            "A numpy dtype.")
        .def_property_readonly(
            "nbytes", [](const DeviceArray &self) { return self->bytes(); }, "In bytes.")
        .def_property_readonly(
            "device", [](const DeviceArray &self) { return self->device; }, "Where it is.")
        .def("__repr__", [](const DeviceArray &self) {
            return std::string("DeviceArray(") + info(self->element).name + " " + shown(self->shape) + ")";
        });
}

}  // namespace qwisp::python
