// Runs a kernel of simt_kernels.metal on the CPU driver. To add a case: a kernel there, listed in its
// QWISP_KERNELS, and a TEST_CASE in one of test_simt*.cpp.
#pragma once
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "metal_runtime/drivers/cpu/cpu_driver.h"
#include "metal_runtime/drivers/cpu/images.h"

namespace qwisp::test {

using namespace qwisp::metal;

inline std::string read_file(const char *path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

inline std::string load_text(const char *image, const char *text) {
    const std::string error = simt::load_kernel_image(image);
    if (!error.empty()) throw std::runtime_error(error);
    return read_file(text);
}
inline const std::string &test_text() {
    static const std::string text = load_text(QWISP_TEST_IMAGE, QWISP_TEST_TEXT);
    return text;
}

// A buffer of the driver, as an array.
template <class T>
struct Array {
    std::unique_ptr<Memory> memory;
    size_t count;

    Array(Driver &driver, size_t n) : memory(driver.allocate(n * sizeof(T), Storage::shared)), count(n) {}
    T *data() const { return static_cast<T *>(memory->contents()); }
    T &operator[](size_t i) const { return data()[i]; }
    std::vector<T> values() const { return {data(), data() + count}; }
    Binding binding(size_t offset = 0) const {
        Binding result;
        result.memory = memory.get();
        result.offset = offset;
        result.length = count * sizeof(T) - offset;
        return result;
    }
};

inline Binding bytes(const void *data, size_t length) {
    Binding result;
    result.bytes = data;
    result.length = length;
    return result;
}

struct Simt {
    CpuDriver driver;
    std::unique_ptr<Module> module;

    explicit Simt(simt::RunawayLimits limits = {}, const std::string &text = test_text()) : driver(limits) {
        std::string error;
        module = driver.compile(text, {}, &error);
        REQUIRE_MESSAGE(module != nullptr, error);
    }

    // Returns the fault's message.
    std::string run(const char *name, const std::vector<Binding> &bindings, Size3 groups, uint64_t threads,
                    const ConstantValues &constants = {}) {
        std::string error;
        const auto kernel = module->specialise(name, constants, &error);
        if (kernel == nullptr) return error;
        Dispatch dispatch{};
        dispatch.kernel = kernel.get();
        dispatch.bindings = bindings;
        dispatch.groups = groups;
        dispatch.threads = {threads, 1, 1};
        return driver.run({dispatch});
    }
};

inline bool contains(const std::string &text, const std::string &part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    return text.find(part) != std::string::npos;
}

}  // namespace qwisp::test
