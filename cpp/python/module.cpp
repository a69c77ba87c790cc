#include "objects.h"
#include "route/errors.h"

PYBIND11_MODULE(core_of_main_interpreter, module) {
    using namespace qwisp::python;
    module.doc() = "The compiled part of qwisp_native; use that.";
    module.attr("__version__") = QWISP_VERSION;
    auto &error = py::register_local_exception<qwisp::DeviceError>(module, "DeviceError", PyExc_RuntimeError);
    error.attr("__module__") = "qwisp_native";
    error.doc() = "The device said no: no such device, shaders that do not compile, commands that failed.";
    bind_shutdown(module);
    bind_device(module);
    bind_buffer(module);
    bind_commands(module);
    bind_gate(module);
    bind_operands(module);
    bind_plan(module);
    bind_encode(module);
    bind_router(module);
    bind_record(module);
}

// pybind11's own entry waits for ever in a subinterpreter of Python 3.11, which cannot refuse the module by itself.
extern "C" PYBIND11_EXPORT PyObject *PyInit__core() {
    if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit_core_of_main_interpreter();
    PyErr_SetString(PyExc_ImportError, "qwisp_native cannot be loaded in a subinterpreter");
    return nullptr;
}
