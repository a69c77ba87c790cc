// Arguments that are taken as they come and refused by name: "top_k: 'eight', but it must be an int".
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace qwisp::python {

namespace py = pybind11;

// Any object at the call; T is what the signature declares and what the functions below turn it into.
template <typename T>
struct Arg {
    py::object value;
    bool is_none() const { return value.is_none(); }
};

// What a signature calls a T, where that is not pybind11's own name for it.
template <typename T>
struct ArgName {
    static constexpr auto name = py::detail::make_caster<T>::name;
};
template <>
struct ArgName<int64_t> {
    static constexpr auto name = py::detail::const_name("int");
};
template <>
struct ArgName<double> {
    static constexpr auto name = py::detail::const_name("float");
};
template <typename T>
struct ArgName<std::optional<T>> {
    static constexpr auto name = ArgName<T>::name + py::detail::const_name(" | None");
};

// repr(value), cut short; never throws a Python error.
std::string shown(py::handle value);
std::string type_shown(py::handle value);  // "a list", "None"

[[noreturn]] void wrong_type(const char *name, py::handle found, const char *wanted);
[[noreturn]] void wrong_value(const std::string &message);

int64_t integer(const char *name, const Arg<int64_t> &argument);
bool flag(const char *name, const Arg<bool> &argument);
float float32(const char *name, const Arg<double> &argument);
std::string text(const char *name, const Arg<std::string> &argument);

// self of a bound class T, held; a T whose __init__ has not run is refused.
template <typename T>
struct Self {
    py::object object;
    std::shared_ptr<T> held;
    T *operator->() const { return held.get(); }
    T &operator*() const { return *held; }
};

template <typename T>
std::shared_ptr<T> held(py::handle object) {
    try {
        return py::cast<std::shared_ptr<T>>(object);
    } catch (const py::cast_error &) {
        throw py::type_error(std::string(py::str(py::type::of(object).attr("__name__"))) +
                             ": the object was never initialised");
    }
}

template <typename T>
std::shared_ptr<T> instance(const char *name, const Arg<T> &argument) {
    if (!py::isinstance<T>(argument.value)) {
        wrong_type(name, argument.value, std::string(py::str(py::type::of<T>().attr("__name__"))).c_str());
    }
    return held<T>(argument.value);
}

// None gives null.
template <typename T>
std::shared_ptr<T> instance(const char *name, const Arg<std::optional<T>> &argument) {
    if (argument.is_none()) return nullptr;
    return instance(name, Arg<T>{argument.value});
}

}  // namespace qwisp::python

namespace pybind11::detail {

template <typename T>
struct type_caster<qwisp::python::Arg<T>> {
    PYBIND11_TYPE_CASTER(qwisp::python::Arg<T>, qwisp::python::ArgName<T>::name);
    bool load(handle source, bool) {
        value.value = reinterpret_borrow<object>(source);
        return true;
    }
};

template <typename T>
struct type_caster<qwisp::python::Self<T>> {
    PYBIND11_TYPE_CASTER(qwisp::python::Self<T>, make_caster<T>::name);
    bool load(handle source, bool) {
        if (!isinstance<T>(source)) return false;
        value.object = reinterpret_borrow<object>(source);
        value.held = qwisp::python::held<T>(source);
        return true;
    }
};

}  // namespace pybind11::detail
