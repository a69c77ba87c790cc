// Arguments that are taken as they come and refused by name: "top_k: 'eight', but it must be an int".
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

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
[[noreturn]] void never_initialised(py::handle object);

int64_t integer(const char *name, const Arg<int64_t> &argument);
bool flag(const char *name, const Arg<bool> &argument);
float float32(const char *name, const Arg<double> &argument);
std::string text(const char *name, const Arg<std::string> &argument);

// self of a bound class T; a T whose __init__ has not run is refused.
template <typename T>
struct Self {
    py::handle object;
    std::shared_ptr<T> held;
    T *operator->() const { return held.get(); }
    T &operator*() const { return *held; }
};

// Null if `object` is no T; TypeError for a T whose __init__ has not run.
template <typename T>
std::shared_ptr<T> held(py::handle object) {
    py::detail::make_caster<std::shared_ptr<T>> caster;
    try {
        return caster.load(object, false) ? std::shared_ptr<T>(caster) : nullptr;
    } catch (const py::cast_error &) {
        never_initialised(object);
    }
}

template <typename T>
std::shared_ptr<T> instance(const char *name, const Arg<T> &argument) {
    if (auto found = held<T>(argument.value)) return found;
    wrong_type(name, argument.value, py::cast<std::string>(py::type::of<T>().attr("__name__")).c_str());
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
        value.held = qwisp::python::held<T>(source);
        value.object = source;
        return bool(value.held);
    }
};

}  // namespace pybind11::detail
