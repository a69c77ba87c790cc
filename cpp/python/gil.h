// Work without the GIL that survives interpreter shutdown and fork.
#pragma once
#include <pybind11/pybind11.h>

#include <exception>

namespace qwisp::python {

// A thread that comes back for the GIL after the interpreter has begun to shut down is ended on the spot by
// CPython (before 3.14), through C++ frames that must not be unwound then. So the module's atexit hook waits
// until no thread is out, and a thread that wants to leave after that sleeps until the process ends.
PyThreadState *leave_interpreter();
void enter_interpreter(PyThreadState *state);
void register_shutdown();

// Runs `work` without the GIL; it must not touch Python. Exceptions pass.
template <typename Work>
void without_gil(Work &&work) {
    PyThreadState *state = leave_interpreter();
    std::exception_ptr error;
    try {
        work();
    } catch (...) {
        error = std::current_exception();
    }
    enter_interpreter(state);
    if (error) std::rethrow_exception(error);
}

// How often this process has been forked from one that used the module: what was made before is not usable
// after.
unsigned fork_generation();

}  // namespace qwisp::python
