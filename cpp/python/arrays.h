// Arrays in and out: element types, the memory of an argument, numpy views of our own memory.
#pragma once
#include <pybind11/numpy.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "arguments.h"

namespace qwisp::python {

enum class Element : uint8_t {
    boolean,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    float32,
    float64
};
struct ElementInfo {
    const char *name;
    char kind;  // of numpy's dtype
    uint8_t size;
    uint8_t type_number;  // of numpy's C interface
};
const ElementInfo &info(Element element);
py::dtype numpy_dtype(Element element);
// What a caller passed as a dtype. Throws TypeError naming the types there are.
Element element(const char *name, py::handle dtype);

inline constexpr size_t kMaxDimensions = 32;  // of numpy 1 and the buffer protocol
using Shape = std::vector<py::ssize_t>;
std::string shown(const Shape &shape);
size_t byte_count(Element element, const Shape &shape);  // ValueError if a dimension or the product cannot be

// Anything with memory that numpy can look at without a copy; see arrays.py.
struct ArrayInput {};
// A result that its signature calls by a name of its own; `Name` has a static `text`.
template <typename Name>
class Named : public py::object {
  public:
    Named(py::object object) : py::object(std::move(object)) {}
};

// The memory of an argument: C-contiguous, in native byte order, kept alive as long as this.
class HostArray {
  public:
    // Throws TypeError (no array, another element type) and ValueError (layout, not on the CPU).
    HostArray(const char *name, const py::object &value, std::initializer_list<Element> accepted);

    Element element() const { return element_; }
    Shape shape() const;
    int dimensions() const { return int(array_.ndim()); }
    int64_t extent(int dimension) const { return array_.shape(dimension); }
    // These two also without the GIL: py::array's own count references.
    size_t bytes() const { return memory_.size(); }
    std::span<const std::byte> memory() const { return memory_; }
    bool is_shape(std::initializer_list<int64_t> shape) const;
    bool writeable() const { return array_.writeable(); }
    std::span<std::byte> mutable_memory() {
        return {static_cast<std::byte *>(array_.mutable_data()), bytes()};
    }

  private:
    py::array array_;
    Element element_;
    std::span<const std::byte> memory_;
};

struct AnyArray {
    static constexpr auto text = py::detail::const_name("numpy.typing.NDArray[typing.Any]");
};
struct BytesArray {
    static constexpr auto text = py::detail::const_name("numpy.typing.NDArray[numpy.uint8]");
};
struct HalfArray {
    static constexpr auto text = py::detail::const_name("numpy.typing.NDArray[numpy.float16]");
};
struct IntArray {
    static constexpr auto text = py::detail::const_name("numpy.typing.NDArray[numpy.int32]");
};

// A view of memory that `owner` keeps alive.
py::array view(Element element, Shape shape, void *memory, py::handle owner, bool writeable);
// A fresh array.
py::array empty(Element element, std::initializer_list<py::ssize_t> shape);

template <>
struct ArgName<ArrayInput> {
    static constexpr auto name = py::detail::const_name("qwisp_native.arrays.ArrayInput");
};

}  // namespace qwisp::python

namespace pybind11::detail {

template <typename Name>
struct handle_type_name<qwisp::python::Named<Name>> {
    static constexpr auto name = Name::text;
};

}  // namespace pybind11::detail
