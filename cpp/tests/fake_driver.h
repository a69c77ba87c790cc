// A driver whose kernels are C++ functions, and the objects that the tests of the device classes start from.
#pragma once
#include <Block.h>

#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "metal_runtime/software_device.h"

#if defined(__BLOCKS__)
#define TEST_BLOCK(...) ^(__VA_ARGS__)
#else
#define TEST_BLOCK(...) ::mtlshim::literal % [=](__VA_ARGS__)
#endif

namespace qwisp::test {

using namespace qwisp::metal;

struct ScaleArgs {
    uint32_t count;
    float factor;
};

struct FakeMemory final : Memory {
    explicit FakeMemory(size_t length) : bytes(length) {}
    FakeMemory(void *host_, size_t) : host(host_) {}
    void *contents() override { return host ? host : bytes.data(); }
    uint64_t gpu_address() override { return reinterpret_cast<uint64_t>(contents()); }

    std::vector<std::byte> bytes;
    void *host = nullptr;
};

struct FakeKernel final : Kernel {
    const FunctionInfo &info() const override { return *description; }
    size_t max_threads() const override { return 128; }
    size_t threadgroup_memory() const override { return description->name == "greedy" ? 4096 : 256; }

    const FunctionInfo *description = nullptr;
    ConstantValues constants;
};

inline Argument in(const char *name, uint32_t slot) { return {name, slot, true, false, false, 4, 4, {}}; }
inline Argument out(const char *name, uint32_t slot) { return {name, slot, false, true, false, 4, 4, {}}; }

inline const std::vector<FunctionInfo> &fake_functions() {
    static const auto *const functions = new std::vector<FunctionInfo>{
        // y[i] = x[i] * args.factor
        {"scale", {in("x", 0), out("y", 1), {"args", 2, true, false, true, sizeof(ScaleArgs), 4, {}}}, {}},
        // sum[0] += x[0]
        {"add", {in("x", 0), {"sum", 1, true, true, false, 4, 4, {}}}, {}},
        // y[i] = shift (+ bias[i] if biased)
        {"shift",
         {out("y", 0), {"bias", 1, true, false, false, 4, 4, 7}},
         {{"biased", 7, ConstantType::boolean},
          {"shift", 8, ConstantType::float32},
          {"n", 9, ConstantType::uint32}}},
        {"vector", {{"v", 30, true, false, false, 16, 16, {}}}, {}},
        {"fault", {}, {}},   // ends with a fault
        {"block", {}, {}},   // waits until the driver is opened
        {"greedy", {}, {}},  // more threadgroup memory than there is
        {"refused", {}, {}},
    };
    return *functions;
}

class FakeDriver;

struct FakeModule final : Module {
    const std::vector<FunctionInfo> &functions() const override { return fake_functions(); }
    std::unique_ptr<Kernel> specialise(std::string_view name, const ConstantValues &constants,
                                       std::string *error) override {
        if (name == "refused") {
            *error = "no registers left";
            return nullptr;
        }
        auto kernel = std::make_unique<FakeKernel>();
        for (const FunctionInfo &info : fake_functions()) {
            if (info.name == name) kernel->description = &info;
        }
        kernel->constants = constants;
        return kernel;
    }
};

class FakeDriver final : public Driver {
  public:
    std::string_view name() const override { return "fake"; }
    std::string_view device_name() const override { return "Fake device"; }
    Limits limits() const override { return {256, 1024, 1 << 20, 32}; }
    std::unique_ptr<Memory> allocate(size_t length, Storage) override {
        return std::make_unique<FakeMemory>(length);
    }
    std::unique_ptr<Memory> wrap(void *contents, size_t length) override {
        return std::make_unique<FakeMemory>(contents, length);
    }
    std::unique_ptr<Module> compile(std::string_view text, const std::map<std::string, std::string> &macros_,
                                    std::string *error) override {
        if (text.find("#error") != text.npos) {
            *error = "program_source:1:2: error: as asked";
            return nullptr;
        }
        macros = macros_;
        return std::make_unique<FakeModule>();
    }
    std::string run(const std::vector<Command> &commands) override;
    std::optional<uint64_t> shuffle_seed() const override { return seed; }
    void set_shuffle_seed(std::optional<uint64_t> seed_) override { seed = seed_; }
    void after_fork_in_child() override {  // another thread may have been in run()
        new (&mutex) std::mutex;
        new (&seen) std::vector<Command>;
        new (&threads) std::set<std::thread::id>;
    }

    void open() {
        const std::lock_guard lock(mutex);
        is_open = true;
        opened.notify_all();
    }

    std::mutex mutex;
    std::condition_variable opened;
    bool is_open = false;
    std::vector<Command> seen;          // dispatches without their bindings
    std::set<std::thread::id> threads;  // that called run()
    std::map<std::string, std::string> macros;
    std::optional<uint64_t> seed;

  private:
    std::string run_one(const Dispatch &dispatch);
    std::string run_one(const Copy &copy) {
        std::memcpy(at(copy.to, copy.to_offset), at(copy.from, copy.from_offset), copy.length);
        return {};
    }
    std::string run_one(const Fill &fill) {
        std::memset(at(fill.to, fill.offset), fill.value, fill.length);
        return {};
    }
    static std::byte *at(Memory *memory, size_t offset) {
        return static_cast<std::byte *>(memory->contents()) + offset;
    }
    template <class T>
    static T *array(const Binding &binding) {
        return reinterpret_cast<T *>(
            binding.memory ? at(binding.memory, binding.offset)
                           : const_cast<std::byte *>(static_cast<const std::byte *>(binding.bytes)));
    }
};

inline std::string FakeDriver::run_one(const Dispatch &dispatch) {
    auto &kernel = *static_cast<FakeKernel *>(dispatch.kernel);
    const std::string &name = kernel.info().name;
    const auto &b = dispatch.bindings;
    const uint64_t n = dispatch.grid[0];
    if (name == "scale") {
        for (uint64_t i = 0; i < n; ++i)
            array<float>(b[1])[i] = array<float>(b[0])[i] * array<ScaleArgs>(b[2])->factor;
    } else if (name == "add") {
        *array<float>(b[1]) += *array<float>(b[0]);
    } else if (name == "shift") {
        const bool biased = std::get<bool>(kernel.constants.at(7));
        const float shift = std::get<float>(kernel.constants.at(8));
        for (uint64_t i = 0; i < n; ++i)
            array<float>(b[0])[i] = shift + (biased ? array<float>(b[1])[i] : 0.0f);
    } else if (name == "fault") {
        return "kernel fault: x[7] is beyond the end";
    } else if (name == "block") {
        std::unique_lock lock(mutex);
        opened.wait(lock, [this] { return is_open; });
    }
    return {};
}

inline std::string FakeDriver::run(const std::vector<Command> &commands) {
    for (const Command &command : commands) {
        {
            const std::lock_guard lock(mutex);
            seen.push_back(command);
            threads.insert(std::this_thread::get_id());
            if (auto *const dispatch = std::get_if<Dispatch>(&seen.back())) dispatch->bindings = {};
        }
        std::string fault = std::visit([this](const auto &each) { return run_one(each); }, command);
        if (!fault.empty()) return fault;
    }
    return {};
}

inline NS::String *string(const char *text) { return NS::String::string(text, NS::UTF8StringEncoding); }
inline std::string text(const NS::String *string) { return string ? string->utf8String() : "(null)"; }

class Pool {
  public:
    Pool() : pool_(NS::AutoreleasePool::alloc()->init()) {}
    ~Pool() { pool_->release(); }

  private:
    NS::AutoreleasePool *pool_;
};

using PipelinePtr = NS::SharedPtr<MTL::ComputePipelineState>;
using BufferPtr = NS::SharedPtr<MTL::Buffer>;

// A device with what most tests need. Encoded objects are autoreleased: keep a Pool around.
struct World {
    Pool pool;
    std::shared_ptr<FakeDriver> driver = std::make_shared<FakeDriver>();
    NS::SharedPtr<MTL::Device> device = NS::TransferPtr(new_device(driver));
    NS::SharedPtr<MTL::CommandQueue> queue = NS::TransferPtr(device->newCommandQueue());
    NS::SharedPtr<MTL::Library> library = NS::TransferPtr(
        device->newLibrary(string("kernels"), (MTL::CompileOptions *)nullptr, (NS::Error **)nullptr));
    PipelinePtr scale = pipeline("scale"), add = pipeline("add"), block = pipeline("block");
    BufferPtr x = buffer(64, "x"), y = buffer(64, "y"), z = buffer(64, "z");

    PipelinePtr pipeline(const char *name) const {
        const auto function = NS::TransferPtr(library->newFunction(string(name)));
        return NS::TransferPtr(device->newComputePipelineState(function.get(), (NS::Error **)nullptr));
    }
    BufferPtr buffer(size_t length, const char *label) const {
        auto buffer = NS::TransferPtr(device->newBuffer(length, MTL::ResourceStorageModeShared));
        buffer->setLabel(string(label));
        return buffer;
    }
    // to = from * factor, in a threadgroup of 4.
    void encode_scale(MTL::ComputeCommandEncoder *encoder, const BufferPtr &from, const BufferPtr &to,
                      float factor, size_t from_offset = 0, size_t to_offset = 0) const {
        const ScaleArgs args{4, factor};
        encoder->setComputePipelineState(scale.get());
        encoder->setBuffer(from.get(), from_offset, 0);
        encoder->setBuffer(to.get(), to_offset, 1);
        encoder->setBytes(&args, sizeof args, 2);
        encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(4, 1, 1));
    }
    void encode_add(MTL::ComputeCommandEncoder *encoder, const BufferPtr &from, const BufferPtr &to) const {
        encoder->setComputePipelineState(add.get());
        encoder->setBuffer(from.get(), 0, 0);
        encoder->setBuffer(to.get(), 0, 1);
        encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(1, 1, 1));
    }
    void encode_block(MTL::CommandBuffer *commands) const {
        auto *const encoder = commands->computeCommandEncoder();
        encoder->setComputePipelineState(block.get());
        encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(1, 1, 1));
        encoder->endEncoding();
    }
};

inline MTL::CommandBuffer *scaled(const World &world, const BufferPtr &from, const BufferPtr &to,
                                  float factor) {
    auto *const commands = world.queue->commandBuffer();
    auto *const encoder = commands->computeCommandEncoder();
    world.encode_scale(encoder, from, to, factor);
    encoder->endEncoding();
    return commands;
}

// Commits and waits on a thread of its own; returns once the device runs it.
inline std::thread wait_elsewhere(MTL::CommandBuffer *commands) {
    std::thread waiter([commands] {
        const Pool pool;
        commands->commit();
        commands->waitUntilCompleted();
    });
    while (commands->status() < MTL::CommandBufferStatusScheduled) std::this_thread::yield();
    return waiter;
}

inline float *floats(const BufferPtr &buffer) { return static_cast<float *>(buffer->contents()); }

struct Refusal {
    std::optional<Misuse> misuse;
    std::string message;
};
inline Refusal refusal(const std::function<void()> &call) {
    try {
        call();
    } catch (const ValidationError &error) {
        return {error.misuse(), error.what()};
    }
    return {std::nullopt, "(nothing was thrown)"};
}

}  // namespace qwisp::test
