#include "objects.h"
#include "route/errors.h"

namespace py = pybind11;

namespace {

#if defined(__clang__)
constexpr const char *kCompiler = "clang " __clang_version__;
#else
constexpr const char *kCompiler = "gcc " __VERSION__;
#endif

void translate(std::exception_ptr thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const qwisp::DeviceError &error) {
        py::set_error(py::module_::import("qwisp_native.errors").attr("DeviceError"), error.what());
    }
}

}  // namespace

PYBIND11_MODULE(core_of_main_interpreter, module) {
    using namespace qwisp::python;
    module.doc() = "The compiled part of qwisp_native; use that.";
    module.attr("__version__") = QWISP_VERSION;
    module.attr("compiler") = kCompiler;
    py::register_local_exception_translator(translate);
    register_shutdown();
    bind_device(module);
    bind_buffer(module);
    bind_commands(module);
    bind_gate(module);
    bind_operands(module);
    bind_plan(module);
    bind_encode(module);
    bind_device_array(module);
    bind_router(module);
    bind_record(module);
    bind_timing(module);
}

// pybind11's own entry waits for ever in a subinterpreter of Python 3.11, which cannot refuse the module by
// itself.
extern "C" PYBIND11_EXPORT PyObject *PyInit__core() {
    if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit_core_of_main_interpreter();
    PyErr_SetString(PyExc_ImportError, "qwisp_native cannot be loaded in a subinterpreter");
    return nullptr;
}
