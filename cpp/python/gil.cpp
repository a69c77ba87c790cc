#include "gil.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace py = pybind11;

namespace qwisp::python {
namespace {

std::atomic<int> threads_out{0};
std::atomic<unsigned> forks{0};
std::atomic<bool> closing{false};
std::thread::id closing_thread;  // written before `closing`

[[noreturn]] void sleep_for_ever() {
    PyEval_SaveThread();
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void close() {
    closing_thread = std::this_thread::get_id();
    closing = true;
    while (threads_out.load() != 0) {
        py::gil_scoped_release release;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// Of all threads only the forking one is in the child, and it holds the GIL.
void after_fork_in_child() {
    threads_out = 0;
    ++forks;
}

}  // namespace

PyThreadState *leave_interpreter() {
    if (closing && std::this_thread::get_id() != closing_thread) sleep_for_ever();
    ++threads_out;
    return PyEval_SaveThread();
}

void enter_interpreter(PyThreadState *state) {
    PyEval_RestoreThread(state);
    --threads_out;
}

unsigned fork_generation() { return forks; }

void register_shutdown() {
    static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    if (registered != 0) throw std::bad_alloc();
    py::module_::import("atexit").attr("register")(py::cpp_function(close));
}

}  // namespace qwisp::python
