#include "fake_cuda.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "metal_runtime/drivers/cuda/api.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace qwisp::metal::cuda {

using test::FakeLaunch;

constexpr Result kInvalidValue = 1, kNoMemory = 2, kInvalidContext = 201, kNotFound = 500,
                 kInvalidHandle = 400, kIllegalAddress = 700, kCaptureUnsupported = 900,
                 kCaptureInvalid = 901, kUpdateFailure = 910, kNotSupported = 801;
constexpr uint64_t kDeviceBase = uint64_t{1} << 60;  // device address = host address + this
constexpr size_t kDeviceMemory = size_t{1} << 32;

struct ContextTag {
    Result fault = kSuccess;
    double clock = 0;  // seconds
};
// Something for a stream to do. Nodes of one shape may take each other's place in a graph.
struct Node {
    std::string shape;
    std::function<Result(ContextTag &)> run;
};
struct GraphTag {
    std::vector<Node> nodes;
};
struct GraphExecTag {
    std::vector<Node> nodes;
};
struct StreamTag {
    explicit StreamTag(ContextTag *context_) : context(context_) {}

    ContextTag *context;
    std::deque<Node> pending;
    std::shared_ptr<GraphTag> capture;
};
struct EventTag {
    StreamTag *stream = nullptr;  // where it is still to come
    double time = -1;
};
struct FunctionTag {
    std::string kernel;
};
struct ModuleTag {
    FunctionTag kernel;  // the only one
};

namespace {

const char *const kDevice = "device", *const kHost = "host", *const kRegistered = "registered";

struct Memory {
    size_t length;
    const char *kind;
};
struct Kernel {
    std::vector<size_t> sizes;
    test::FakeCuda::Body body;
};

thread_local std::vector<ContextTag *> stack;
thread_local int capture_mode = 0;  // "global"

class World final : public test::FakeCuda {
  public:
    void reset() override {
        const std::lock_guard lock(mutex);
        fail_in = fault_in = 0;
        version = 13000;
        held = elsewhere = broke = false;
        calls_.clear();
        kernels.clear();
        executed_.clear();
        for (const auto &[address, memory] : memories) {
            if (memory.kind != kRegistered) std::free(at(address));
        }
        memories.clear();
        objects.clear();
        for (ContextTag &context : contexts) context = {};
    }
    void fail(const std::string &entry, int nth, int result) override {
        const std::lock_guard lock(mutex);
        fail_entry = entry;
        fail_in = nth;
        fail_result = result;
    }
    bool has_failed() const override { return fail_in == 0; }
    int calls(const std::string &entry) const override {
        const std::lock_guard lock(mutex);
        const auto found = calls_.find(entry);
        return found == calls_.end() ? 0 : found->second;
    }
    void set_version(int version_) override { version = version_; }
    void set_kernel(const std::string &name, std::vector<size_t> sizes, Body body) override {
        const std::lock_guard lock(mutex);
        kernels[name] = {std::move(sizes), std::move(body)};
    }
    void fault(int nth, int result) override {
        const std::lock_guard lock(mutex);
        fault_in = nth;
        fault_result = result;
    }
    const std::vector<FakeLaunch> &executed() const override { return executed_; }
    void hold(bool on) override {
        const std::lock_guard lock(mutex);
        held = on;
        released.notify_all();
    }
    void capture_elsewhere(bool on) override {
        const std::lock_guard lock(mutex);
        elsewhere = on;
    }
    bool broke_capture() const override { return broke; }
    std::map<std::string, int> live() const override {
        const std::lock_guard lock(mutex);
        std::map<std::string, int> all;
        for (const auto &[address, memory] : memories) ++all[memory.kind];
        for (const auto &[handle, object] : objects) ++all[object.first];
        return all;
    }
    int contexts_here() const override { return int(stack.size()); }
    int capture_mode_here() const override { return capture_mode; }
    void *at(uint64_t address) const override { return reinterpret_cast<void *>(address - kDeviceBase); }

    // An entry point: counted, failed as asked, and refused where CUDA refuses it.
    enum Needs { nothing, context, quiet };  // quiet: nobody may capture with mode "global" meanwhile
    template <class F>
    Result call(const char *entry, Needs needs, F body) {
        std::unique_lock lock(mutex);
        ++calls_[entry];
        if (fail_in > 0 && (fail_entry.empty() ? may_fail(entry) : fail_entry == entry) && --fail_in == 0)
            return fail_result;
        if (needs == nothing) return body(lock);
        if (stack.empty()) return kInvalidContext;
        if (stack.back()->fault != kSuccess) return stack.back()->fault;
        if (needs == quiet && elsewhere && capture_mode != kCaptureRelaxed) {
            broke = true;
            return kCaptureUnsupported;
        }
        return body(lock);
    }
    // Those that end something do not, nor what they need.
    static bool may_fail(const std::string &entry) {
        for (const char *const word : {"Destroy", "Free", "CtxP", "Unregister", "GetError", "Exchange"}) {
            if (entry.find(word) != std::string::npos) return false;
        }
        return true;
    }

    Result add(StreamTag *stream, Node node) {
        if (stream == nullptr) return kInvalidHandle;  // the null stream waits for what others do
        auto &to = *stream;
        if (to.capture) {
            to.capture->nodes.push_back(std::move(node));
        } else {
            to.pending.push_back(std::move(node));
        }
        return kSuccess;
    }
    // Runs what the stream has to do until `done`.
    template <class F>
    Result drain(std::unique_lock<std::mutex> &lock, StreamTag &stream, F done) {
        ContextTag &context = *stream.context;
        released.wait(lock, [this] { return !held; });
        while (context.fault == kSuccess && !done() && !stream.pending.empty()) {
            const Node node = std::move(stream.pending.front());
            stream.pending.pop_front();
            context.fault = node.run(context);
        }
        return context.fault;
    }
    // The memory that holds all of these bytes; null if there is none.
    char *find(DevicePointer address, size_t length) const {
        auto after = memories.upper_bound(address);
        if (after == memories.begin()) return nullptr;
        const auto &[first, memory] = *--after;
        const size_t offset = address - first;
        return offset <= memory.length && length <= memory.length - offset ? static_cast<char *>(at(address))
                                                                           : nullptr;
    }
    DevicePointer hold_memory(void *host, size_t length, const char *kind) {
        const DevicePointer address = reinterpret_cast<uintptr_t>(host) + kDeviceBase;
        memories[address] = {length, kind};
        return address;
    }
    template <class T>
    Result make(const char *kind, T **handle, std::shared_ptr<T> object) {
        *handle = object.get();
        objects[*handle] = {kind, std::move(object)};
        return kSuccess;
    }
    Result destroy(const void *handle) { return objects.erase(handle) ? kSuccess : kInvalidHandle; }
    bool drop_memory(DevicePointer address, const char *kind) {
        const auto found = memories.find(address);
        if (found == memories.end() || found->second.kind != kind) return false;
        memories.erase(found);
        return true;
    }
    Result launched(ContextTag &context, const FakeLaunch &launch,
                    std::vector<std::vector<char>> &parameters) {
        executed_.push_back(launch);
        context.clock += kLaunchSeconds;
        if (fault_in > 0 && --fault_in == 0) return fault_result;
        const Kernel &kernel = kernels[launch.kernel];
        if (!kernel.body) return kSuccess;
        std::vector<void *> pointers;
        for (auto &each : parameters) pointers.push_back(each.data());
        kernel.body(pointers.data());
        return kSuccess;
    }

    mutable std::mutex mutex;
    std::condition_variable released;
    ContextTag contexts[kDevices];
    std::map<DevicePointer, Memory> memories;
    std::map<const void *, std::pair<const char *, std::shared_ptr<void>>> objects;  // everything else
    std::map<std::string, Kernel> kernels;
    int version = 13000;
    bool held = false, elsewhere = false, broke = false;

  private:
    std::string fail_entry;
    int fail_in = 0, fail_result = 0, fault_in = 0, fault_result = 0;
    std::map<std::string, int> calls_;
    std::vector<FakeLaunch> executed_;
};

World &world() {
    static World *const once = new World;
    return *once;
}

using Lock = std::unique_lock<std::mutex>;

}  // namespace

EXPORT test::FakeCuda *qwisp_fake_cuda() { return &world(); }

#define CALL(needs, ...) \
    return world().call(__func__, World::needs, [&]([[maybe_unused]] Lock & lock) -> Result __VA_ARGS__)

EXPORT Result cuInit(unsigned) { return kSuccess; }
EXPORT Result cuDriverGetVersion(int *version) {
    *version = world().version;
    return kSuccess;
}
EXPORT Result cuGetErrorName(Result result, const char **text) {
    *text = result == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
    return kSuccess;
}
EXPORT Result cuGetErrorString(Result result, const char **text) {
    *text = result == kIllegalAddress ? "an illegal memory access was encountered" : "another error";
    return kSuccess;
}
EXPORT Result cuDeviceGetCount(int *count) {
    *count = test::FakeCuda::kDevices;
    return kSuccess;
}
EXPORT Result cuDeviceGet(DeviceId *id, int index) {
    *id = index;
    return kSuccess;
}
EXPORT Result cuDeviceGetName(char *name, int length, DeviceId id) {
    std::strncpy(name, id == 0 ? "Fake GPU 0" : "Fake GPU 1", size_t(length));
    return kSuccess;
}
EXPORT Result cuDeviceTotalMem_v2(size_t *bytes, DeviceId) {
    *bytes = kDeviceMemory;
    return kSuccess;
}
EXPORT Result cuDeviceGetAttribute(int *value, int attribute, DeviceId) {
    const std::map<int, int> values = {{kAttributeMaxThreads, 1024},
                                       {kAttributeSharedMemory, 49152},
                                       {kAttributeWarpSize, 32},
                                       {kAttributeMajor, 9},
                                       {kAttributeMinor, 0}};
    *value = values.contains(attribute) ? values.at(attribute) : 0;
    return kSuccess;
}
EXPORT Result cuDevicePrimaryCtxRetain(ContextHandle *context, DeviceId id) {
    CALL(nothing, {
        *context = &world().contexts[id];
        return kSuccess;
    });
}
EXPORT Result cuCtxPushCurrent_v2(ContextHandle context) {
    CALL(nothing, {
        stack.push_back(context);
        return kSuccess;
    });
}
EXPORT Result cuCtxPopCurrent_v2(ContextHandle *context) {
    CALL(nothing, {
        if (stack.empty()) return kInvalidContext;
        *context = stack.back();
        stack.pop_back();
        return kSuccess;
    });
}
EXPORT Result cuThreadExchangeStreamCaptureMode(int *mode) {
    CALL(nothing, {
        std::swap(*mode, capture_mode);
        return kSuccess;
    });
}

EXPORT Result cuMemAlloc_v2(DevicePointer *address, size_t length) {
    CALL(quiet, {
        if (length > kDeviceMemory) return kNoMemory;
        *address = world().hold_memory(std::malloc(length), length, kDevice);
        std::memset(world().at(*address), 0xa5, length);
        return kSuccess;
    });
}
EXPORT Result cuMemFree_v2(DevicePointer address) {
    CALL(quiet, {
        if (!world().drop_memory(address, kDevice)) return kInvalidValue;
        std::free(world().at(address));
        return kSuccess;
    });
}
EXPORT Result cuMemHostAlloc(void **host, size_t length, unsigned) {
    CALL(quiet, {
        *host = std::malloc(length);
        world().hold_memory(*host, length, kHost);
        return kSuccess;
    });
}
EXPORT Result cuMemFreeHost(void *host) {
    CALL(quiet, {
        if (!world().drop_memory(reinterpret_cast<uintptr_t>(host) + kDeviceBase, kHost))
            return kInvalidValue;
        std::free(host);
        return kSuccess;
    });
}
EXPORT Result cuMemHostRegister_v2(void *host, size_t length, unsigned) {
    CALL(quiet, {
        world().hold_memory(host, length, kRegistered);
        return kSuccess;
    });
}
EXPORT Result cuMemHostUnregister(void *host) {
    CALL(quiet, {
        const bool known = world().drop_memory(reinterpret_cast<uintptr_t>(host) + kDeviceBase, kRegistered);
        return known ? kSuccess : kInvalidValue;
    });
}
EXPORT Result cuMemHostGetDevicePointer_v2(DevicePointer *address, void *host, unsigned) {
    CALL(context, {
        *address = reinterpret_cast<uintptr_t>(host) + kDeviceBase;
        return world().find(*address, 1) ? kSuccess : kInvalidValue;
    });
}
EXPORT Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t length, StreamHandle stream) {
    CALL(context, {
        if (stream != nullptr && stream->capture) return kCaptureUnsupported;  // the driver shall not
        return world().add(stream, {"fill", [=](ContextTag &here) {
                                        here.clock += test::FakeCuda::kLaunchSeconds / 2;
                                        char *const found = world().find(to, length);
                                        if (!found) return kIllegalAddress;
                                        std::memset(found, value, length);
                                        return kSuccess;
                                    }});
    });
}
EXPORT Result cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t length, StreamHandle stream) {
    CALL(context, {
        if (stream != nullptr && stream->capture) return kCaptureUnsupported;  // the driver shall not
        return world().add(stream, {"copy", [=](ContextTag &here) {
                                        here.clock += test::FakeCuda::kLaunchSeconds / 2;
                                        char *const a = world().find(to, length);
                                        const char *const b = world().find(from, length);
                                        if (!a || !b) return kIllegalAddress;
                                        std::memmove(a, b, length);
                                        return kSuccess;
                                    }});
    });
}

EXPORT Result cuModuleLoadData(ModuleHandle *module, const void *image) {
    CALL(quiet, {
        return world().make("module", module,
                            std::make_shared<ModuleTag>(ModuleTag{{static_cast<const char *>(image)}}));
    });
}
EXPORT Result cuModuleUnload(ModuleHandle module) {
    CALL(quiet, { return world().destroy(module); });
}
EXPORT Result cuModuleGetFunction(FunctionHandle *function, ModuleHandle module, const char *name) {
    CALL(context, {
        *function = &module->kernel;
        return module->kernel.kernel == name ? kSuccess : kNotFound;
    });
}
EXPORT Result cuFuncGetAttribute(int *value, int, FunctionHandle) {
    CALL(context, {
        *value = 1024;
        return kSuccess;
    });
}
EXPORT Result cuLaunchKernelEx(const LaunchConfig *config, FunctionHandle function, void **parameters,
                               void **) {
    CALL(context, {
        const Kernel &kernel = world().kernels[function->kernel];
        std::vector<std::vector<char>> values;
        for (size_t i = 0; i < kernel.sizes.size(); ++i) {
            const char *const first = static_cast<const char *>(parameters[i]);
            values.emplace_back(first, first + kernel.sizes[i]);
        }
        FakeLaunch launch{function->kernel, reinterpret_cast<uintptr_t>(config->stream),
                          config->attribute_count > 0};
        std::string shape = launch.kernel + (launch.overlaps ? " overlapping" : "");
        for (const unsigned each : config->grid) shape += ' ' + std::to_string(each);
        return world().add(config->stream, {shape, [launch, values](ContextTag &here) mutable {
                                                return world().launched(here, launch, values);
                                            }});
    });
}

EXPORT Result cuStreamCreate(StreamHandle *stream, unsigned) {
    CALL(context, { return world().make("stream", stream, std::make_shared<StreamTag>(stack.back())); });
}
EXPORT Result cuStreamDestroy_v2(StreamHandle stream) {
    CALL(context, { return world().destroy(stream); });
}
EXPORT Result cuStreamSynchronize(StreamHandle stream) {
    CALL(quiet, {
        if (stream == nullptr) return kInvalidHandle;
        return stream->capture ? kCaptureUnsupported : world().drain(lock, *stream, [] { return false; });
    });
}
EXPORT Result cuEventCreate(EventHandle *event, unsigned) {
    CALL(context, { return world().make("event", event, std::make_shared<EventTag>()); });
}
EXPORT Result cuEventDestroy_v2(EventHandle event) {
    CALL(context, { return world().destroy(event); });
}
EXPORT Result cuEventRecord(EventHandle event, StreamHandle stream) {
    CALL(context, {
        if (stream != nullptr && stream->capture) return kCaptureUnsupported;
        event->stream = stream;
        event->time = -1;
        return world().add(stream, {"event", [event](ContextTag &here) {
                                        event->time = here.clock;
                                        event->stream = nullptr;
                                        return kSuccess;
                                    }});
    });
}
EXPORT Result cuEventSynchronize(EventHandle event) {
    CALL(quiet, {
        if (event->stream == nullptr) return kSuccess;
        return world().drain(lock, *event->stream, [event] { return event->stream == nullptr; });
    });
}
EXPORT Result cuEventElapsedTime(float *milliseconds, EventHandle start, EventHandle end) {
    CALL(context, {
        if (start->time < 0 || end->time < 0) return kNotReady;
        *milliseconds = float((end->time - start->time) * 1e3);
        return kSuccess;
    });
}

// What only streams of others need is there to be found, no more.
EXPORT Result cuStreamGetId(StreamHandle, unsigned long long *) { return kNotSupported; }
EXPORT Result cuStreamGetCaptureInfo_v2(StreamHandle, int *, unsigned long long *, GraphHandle *,
                                        const void **, size_t *) {
    return kNotSupported;
}
EXPORT Result cuStreamWaitEvent(StreamHandle, EventHandle, unsigned) { return kNotSupported; }
EXPORT Result cuCtxSynchronize() { return kNotSupported; }
EXPORT Result cuEventQuery(EventHandle) { return kNotSupported; }

EXPORT Result cuStreamBeginCapture_v2(StreamHandle stream, int) {
    CALL(context, {
        if (stream->capture) return kCaptureInvalid;
        stream->capture = std::make_shared<GraphTag>();
        return kSuccess;
    });
}
EXPORT Result cuStreamEndCapture(StreamHandle stream, GraphHandle *graph) {
    CALL(context, {
        if (!stream->capture) return kCaptureInvalid;
        return world().make("graph", graph, std::exchange(stream->capture, nullptr));
    });
}
EXPORT Result cuGraphInstantiateWithFlags(GraphExecHandle *exec, GraphHandle graph, unsigned long long) {
    CALL(context, {
        auto made = std::make_shared<GraphExecTag>();
        made->nodes = graph->nodes;
        return world().make("exec", exec, std::move(made));
    });
}
EXPORT Result cuGraphExecUpdate_v2(GraphExecHandle exec, GraphHandle graph, GraphUpdateResult *) {
    CALL(context, {
        const bool same =
            std::equal(exec->nodes.begin(), exec->nodes.end(), graph->nodes.begin(), graph->nodes.end(),
                       [](const Node &a, const Node &b) { return a.shape == b.shape; });
        if (!same) return kUpdateFailure;
        exec->nodes = graph->nodes;
        return kSuccess;
    });
}
EXPORT Result cuGraphLaunch(GraphExecHandle exec, StreamHandle stream) {
    CALL(context, {
        for (const Node &node : exec->nodes) world().add(stream, node);
        return kSuccess;
    });
}
EXPORT Result cuGraphDestroy(GraphHandle graph) {
    CALL(context, { return world().destroy(graph); });
}
EXPORT Result cuGraphExecDestroy(GraphExecHandle exec) {
    CALL(context, { return world().destroy(exec); });
}

}  // namespace qwisp::metal::cuda
