#include "api.h"

#include <memory>

#include "library.h"

namespace qwisp::metal::cuda {
namespace {

constexpr int kOldestDriver = 12000;  // CUDA 12.0: cuLaunchKernelEx, cuGraphExecUpdate_v2

std::string describe(const Api &cuda, Result result) {
    const char *name = nullptr, *words = nullptr;
    cuda.error_name(result, &name);
    cuda.error_string(result, &words);
    return std::string(name ? name : "CUDA error") + " (" + std::to_string(result) + ")" +
           (words ? std::string(": ") + words : std::string());
}

struct Loaded {
    Api api = {};
    bool ready = false;
    std::string why;

    Loaded() {
        Library library({"libcuda.so.1", "libcuda.so"});
        if (!library.found()) {
            why = "no CUDA driver: " + library.why();
            return;
        }
        load(library);
        if (!library.missing().empty()) {
            why = "the CUDA driver is too old: it has no " + library.missing();
            return;
        }
        start();
    }

  private:
    void load(Library &library) {
        library.load(api.init, "cuInit");
        library.load(api.driver_version, "cuDriverGetVersion");
        library.load(api.error_name, "cuGetErrorName");
        library.load(api.error_string, "cuGetErrorString");
        library.load(api.device_count, "cuDeviceGetCount");
        library.load(api.device_get, "cuDeviceGet");
        library.load(api.device_name, "cuDeviceGetName");
        library.load(api.device_memory, "cuDeviceTotalMem_v2");
        library.load(api.device_attribute, "cuDeviceGetAttribute");
        library.load(api.retain_context, "cuDevicePrimaryCtxRetain");
        library.load(api.push_context, "cuCtxPushCurrent_v2");
        library.load(api.pop_context, "cuCtxPopCurrent_v2");
        library.load(api.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
        library.load(api.allocate, "cuMemAlloc_v2");
        library.load(api.free, "cuMemFree_v2");
        library.load(api.host_allocate, "cuMemHostAlloc");
        library.load(api.host_free, "cuMemFreeHost");
        library.load(api.host_register, "cuMemHostRegister_v2");
        library.load(api.host_unregister, "cuMemHostUnregister");
        library.load(api.host_pointer, "cuMemHostGetDevicePointer_v2");
        library.load(api.fill, "cuMemsetD8Async");
        library.load(api.copy, "cuMemcpyAsync");
        library.load(api.load_module, "cuModuleLoadData");
        library.load(api.unload_module, "cuModuleUnload");
        library.load(api.get_function, "cuModuleGetFunction");
        library.load(api.function_attribute, "cuFuncGetAttribute");
        library.load(api.launch, "cuLaunchKernelEx");
        library.load(api.stream_create, "cuStreamCreate");
        library.load(api.stream_destroy, "cuStreamDestroy_v2");
        library.load(api.stream_wait, "cuStreamSynchronize");
        library.load(api.stream_id, "cuStreamGetId");
        library.load(api.stream_capture, "cuStreamGetCaptureInfo_v2");
        library.load(api.stream_await, "cuStreamWaitEvent");
        library.load(api.context_wait, "cuCtxSynchronize");
        library.load(api.event_create, "cuEventCreate");
        library.load(api.event_destroy, "cuEventDestroy_v2");
        library.load(api.event_record, "cuEventRecord");
        library.load(api.event_query, "cuEventQuery");
        library.load(api.event_wait, "cuEventSynchronize");
        library.load(api.event_elapsed, "cuEventElapsedTime");
        library.load(api.begin_capture, "cuStreamBeginCapture_v2");
        library.load(api.end_capture, "cuStreamEndCapture");
        library.load(api.graph_instantiate, "cuGraphInstantiateWithFlags");
        library.load(api.graph_update, "cuGraphExecUpdate_v2");
        library.load(api.graph_launch, "cuGraphLaunch");
        library.load(api.graph_destroy, "cuGraphDestroy");
        library.load(api.graph_exec_destroy, "cuGraphExecDestroy");
    }

    void start() {
        int version = 0;
        const Result result = api.init(0);
        if (result != kSuccess) {
            why = "the CUDA driver does not start: " + describe(api, result);
        } else if (api.driver_version(&version) != kSuccess || version < kOldestDriver) {
            why = "the CUDA driver is too old: " + std::to_string(version / 1000) + "." +
                  std::to_string(version % 1000 / 10) + ", but it must be 12.0 or later";
        } else {
            ready = true;
        }
    }
};

// Never destroyed: queue threads may use it while the process exits.
const Loaded &loaded() {
    static const Loaded *const once = new Loaded;
    return *once;
}

}  // namespace

const Api *api() { return loaded().ready ? &loaded().api : nullptr; }
const std::string &why_no_api() { return loaded().why; }

std::string error_text(Result result) { return describe(loaded().api, result); }

}  // namespace qwisp::metal::cuda
