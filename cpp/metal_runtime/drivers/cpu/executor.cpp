#include "executor.h"

#include <cfenv>
#include <exception>
#include <utility>
#include <vector>

#include "adversary.h"
#include "threadgroup.h"

namespace qwisp::simt {

namespace {

// Kernels compute with rounding to nearest and with subnormals, whatever the calling thread has set.
class DefaultFloatEnvironment {
  public:
    DefaultFloatEnvironment() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }

  private:
    std::fenv_t saved_;
};

// Stacks are worth keeping. A thread that runs kernels after its thread-local objects are gone gets a new
// one.
Threadgroup &threadgroup_of_this_thread() {
    thread_local Threadgroup *threadgroup = nullptr;
    struct Cleanup {
        ~Cleanup() { delete std::exchange(threadgroup, nullptr); }
    };
    if (threadgroup == nullptr) {
        threadgroup = new Threadgroup;
        thread_local const Cleanup cleanup;
    }
    return *threadgroup;
}

// Collects the threadgroup arrays of a kernel; the first other service ends the kernel.
class ArrayProbe final : private Services {
  public:
    size_t measure(const KernelImage &image, const FunctionImage &function, const uint32_t *constants,
                   uint32_t constants_set) {
        std::vector<uint32_t> ones(1024,
                                   1);  // what constant arguments hold, and nothing can be divided by zero
        std::array<Region, kMaxSlots> arguments;
        for (Region &argument : arguments) argument.base = reinterpret_cast<std::byte *>(ones.data());
        ThreadContext thread{};
        thread.services = this;
        thread.arguments = arguments.data();
        thread.constants = constants;
        thread.constants_set = constants_set;
        thread.groups[0] = thread.groups[1] = thread.groups[2] = thread.simdgroups = 1;
        ThreadContext *&current = *image.current();
        ThreadContext *const outer = current;
        current = &thread;
        try {
            function.entry(thread);
        } catch (const End &) {
        }
        current = outer;
        return used_;
    }

  private:
    struct End {};

    void load(const Access &, void *) override { throw End(); }
    void store(const Access &, const void *) override { throw End(); }
    uint32_t atomic(const Access &, AtomicOp, uint32_t) override { throw End(); }
    void barrier(Rendezvous, uint32_t, uint32_t) override { throw End(); }
    void fence(uint32_t, bool, bool) override { throw End(); }
    uint32_t simd(Rendezvous, uint32_t, uint32_t, uint32_t) override { throw End(); }
    void undeclared_constant(const char *, uint32_t) override { throw End(); }
    Region *threadgroup_array(const char *, size_t bytes, size_t alignment) override {
        used_ = place_array(used_, alignment) + bytes;
        return &array_;
    }

    size_t used_ = 0;
    Region array_;
};

}  // namespace

std::string execute(Launch &launch) {
    const auto [x, y, z] = launch.groups;
    const uint64_t limit = UINT32_MAX;
    if (x > limit || y > limit || z > limit || (x != 0 && y != 0 && z > UINT64_MAX / 4 / x / y)) {
        return std::string("kernel ") + launch.function->name + ": the grid has too many threadgroups";
    }
    if (launch.threads == 0 || launch.threads > kMaxThreads) {
        return std::string("kernel ") + launch.function->name + ": " + std::to_string(launch.threads) +
               " threads a threadgroup, the limit is " + std::to_string(kMaxThreads);
    }
    try {
        const DefaultFloatEnvironment environment;
        if (launch.choices != nullptr) return Adversary(launch).run();
        Threadgroup &threadgroup = threadgroup_of_this_thread();
        const uint64_t count = x * y * z;
        for (uint64_t linear = 0; linear < count; linear++) {
            threadgroup.start(launch, linear);
            threadgroup.go_on();
            std::string fault = threadgroup.end();
            if (!fault.empty()) return fault;
        }
    } catch (const std::exception &error) {
        return std::string("kernel ") + launch.function->name + ": error in the executor: " + error.what();
    }
    return {};
}

size_t threadgroup_memory_of(const KernelImage &image, const FunctionImage &function,
                             const std::array<uint32_t, kMaxConstants> &constants, uint32_t constants_set) {
    return ArrayProbe().measure(image, function, constants.data(), constants_set);
}

}  // namespace qwisp::simt
