#include "arrays.h"

#include <algorithm>
#include <array>

namespace qwisp::python {
namespace {

static_assert(sizeof(int) == 4 && sizeof(long) == 8, "numpy's type numbers below are those of LP64");
constexpr std::array<ElementInfo, 12> kElements = {{
    {"bool", 'b', 1, 0},
    {"int8", 'i', 1, 1},
    {"int16", 'i', 2, 3},
    {"int32", 'i', 4, 5},
    {"int64", 'i', 8, 7},
    {"uint8", 'u', 1, 2},
    {"uint16", 'u', 2, 4},
    {"uint32", 'u', 4, 6},
    {"uint64", 'u', 8, 8},
    {"float16", 'f', 2, 23},
    {"float32", 'f', 4, 11},
    {"float64", 'f', 8, 12},
}};

template <typename Names>
std::string joined(const Names &elements) {
    std::string out;
    for (auto each = elements.begin(); each != elements.end(); ++each) {
        if (each != elements.begin()) out += each + 1 == elements.end() ? " or " : ", ";
        out += info(*each).name;
    }
    return out;
}

std::string every_element() {
    std::array<Element, kElements.size()> all;
    for (size_t i = 0; i < all.size(); ++i) all[i] = Element(i);
    return joined(all);
}

bool is_element(const py::dtype &dtype, Element element) {
    const ElementInfo &wanted = info(element);
    const char order = dtype.byteorder();
    return dtype.kind() == wanted.kind && dtype.itemsize() == wanted.size && (order == '=' || order == '|');
}

std::string strides(const py::array &array) {
    return shown(Shape(array.strides(), array.strides() + array.ndim()));
}

py::array as_numpy(const char *name, const py::object &value, std::initializer_list<Element> accepted) {
    if (Py_TYPE(value.ptr()) == py::detail::npy_api::get().PyArray_Type_) {
        return py::reinterpret_borrow<py::array>(value);
    }
    return py::module_::import("qwisp_native.arrays").attr("as_numpy")(name, value, joined(accepted));
}

}  // namespace

const ElementInfo &info(Element element) { return kElements[size_t(element)]; }

py::dtype numpy_dtype(Element element) { return py::dtype(info(element).type_number); }

Element element(const char *name, py::handle dtype) {
    try {
        if (!dtype.is_none()) {  // which numpy takes for float64
            const auto found = py::dtype::from_args(py::reinterpret_borrow<py::object>(dtype));
            for (size_t i = 0; i < kElements.size(); ++i) {
                if (is_element(found, Element(i))) return Element(i);
            }
        }
    } catch (py::error_already_set &error) {
        if (!error.matches(PyExc_Exception)) throw;
    }
    throw py::type_error(std::string(name) + ": " + shown(dtype) + ", but it must be " + every_element());
}

std::string shown(const Shape &shape) {
    std::string out = "[";
    for (size_t i = 0; i < shape.size(); ++i) {
        if (i) out += ", ";
        out += std::to_string(shape[i]);
    }
    out += "]";
    return out;
}

size_t byte_count(Element element, const Shape &shape) {
    py::ssize_t bytes = info(element).size;
    bool zero = false;
    for (const py::ssize_t extent : shape) {
        if (extent < 0) wrong_value("shape: " + shown(shape) + ", but it must not be negative");
        zero = zero || extent == 0;
        // numpy wants the product of the other dimensions to fit as well.
        if (__builtin_mul_overflow(bytes, std::max<py::ssize_t>(extent, 1), &bytes)) {
            wrong_value("shape: " + shown(shape) + ", but its bytes must fit 63 bits");
        }
    }
    return zero ? 0 : size_t(bytes);
}

HostArray::HostArray(const char *name, const py::object &value, std::initializer_list<Element> accepted)
    : array_(as_numpy(name, value, accepted)), element_{} {
    const py::dtype dtype = array_.dtype();
    const auto *found =
        std::find_if(accepted.begin(), accepted.end(), [&](Element each) { return is_element(dtype, each); });
    if (found == accepted.end()) {
        throw py::type_error(std::string(name) + ": dtype " + std::string(py::str(dtype)) +
                             ", but it must be " + joined(accepted));
    }
    element_ = *found;
    if (!(array_.flags() & py::array::c_style)) {
        wrong_value(std::string(name) + ": shape " + shown(shape()) + " with strides " + strides(array_) +
                    ", but it must be C-contiguous (numpy.ascontiguousarray makes a copy that is)");
    }
    memory_ = {static_cast<const std::byte *>(array_.data()), size_t(array_.nbytes())};
}

Shape HostArray::shape() const { return Shape(array_.shape(), array_.shape() + array_.ndim()); }

bool HostArray::is_shape(std::initializer_list<int64_t> shape) const {
    return std::equal(shape.begin(), shape.end(), array_.shape(), array_.shape() + array_.ndim());
}

py::array view(Element element, Shape shape, void *memory, py::handle owner, bool writeable) {
    py::array array(numpy_dtype(element), std::move(shape), memory, owner);
    if (!writeable) {
        py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
    }
    return array;
}

py::array empty(Element element, std::initializer_list<py::ssize_t> shape) {
    const auto &api = py::detail::npy_api::get();
    PyObject *const made =
        api.PyArray_NewFromDescr_(api.PyArray_Type_, numpy_dtype(element).release().ptr(), int(shape.size()),
                                  shape.begin(), nullptr, nullptr, 0, nullptr);
    if (!made) throw py::error_already_set();
    return py::reinterpret_steal<py::array>(made);
}

}  // namespace qwisp::python
