#include "arguments.h"

#include <cmath>

namespace qwisp::python {

std::string type_shown(py::handle value) {
    if (value.is_none()) return "None";
    const std::string type = Py_TYPE(value.ptr())->tp_name;
    return (std::string("aeiouAEIOU").find(type[0]) == std::string::npos ? "a " : "an ") + type;
}

std::string shown(py::handle value) {
    constexpr size_t longest = 80;
    std::string out;
    try {
        out = py::cast<std::string>(py::repr(value));
    } catch (const std::exception &) {  // a repr that fails, or an int too long to print
        return type_shown(value);
    }
    if (out.size() <= longest) return out;
    size_t end = longest;
    while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;  // not inside a character
    return out.substr(0, end) + "...";
}

void wrong_type(const char *name, py::handle found, const char *wanted) {
    throw py::type_error(std::string(name) + ": " + type_shown(found) + ", but it must be " + wanted);
}

void wrong_value(const std::string &message) { throw py::value_error(message); }

void never_initialised(py::handle object) {
    throw py::type_error(type_shown(object) + ", but it was never initialised");
}

int64_t integer(const char *name, const Arg<int64_t> &argument) {
    const py::object &value = argument.value;
    if (PyBool_Check(value.ptr()) || !PyIndex_Check(value.ptr())) wrong_type(name, value, "an int");
    const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!index) throw py::error_already_set();
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0) {
        wrong_value(std::string(name) + ": " + shown(index) + ", but it must fit 64 bits");
    }
    if (number == -1 && PyErr_Occurred()) throw py::error_already_set();
    return number;
}

bool flag(const char *name, const Arg<bool> &argument) {
    if (!PyBool_Check(argument.value.ptr())) wrong_type(name, argument.value, "True or False");
    return argument.value.ptr() == Py_True;
}

float float32(const char *name, const Arg<double> &argument) {
    PyObject *value = argument.value.ptr();
    const PyNumberMethods *methods = Py_TYPE(value)->tp_as_number;
    const bool number = methods && (methods->nb_float || methods->nb_index);
    if (PyBool_Check(value) || PyComplex_Check(value) || !number) wrong_type(name, argument.value, "a float");
    const double wide = PyFloat_AsDouble(value);
    if (wide == -1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) throw py::error_already_set();
        PyErr_Clear();
        wrong_value(std::string(name) + ": " + shown(argument.value) + ", but it must fit a float32");
    }
    const auto narrow = static_cast<float>(wide);
    if (!std::isfinite(narrow)) {
        wrong_value(std::string(name) + ": " + shown(argument.value) + ", but it must be finite in float32");
    }
    return narrow;
}

std::string text(const char *name, const Arg<std::string> &argument) {
    if (!PyUnicode_Check(argument.value.ptr())) wrong_type(name, argument.value, "a str");
    Py_ssize_t length = 0;
    const char *utf8 = PyUnicode_AsUTF8AndSize(argument.value.ptr(), &length);
    if (!utf8) throw py::error_already_set();  // a lone surrogate: UnicodeEncodeError, a ValueError
    return {utf8, size_t(length)};
}

}  // namespace qwisp::python
