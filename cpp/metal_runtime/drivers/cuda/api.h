// The part of the CUDA driver's interface that the driver here uses, declared by itself: no CUDA header is
// needed to build, and no library until there is a device. Names and values are the interface's own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace qwisp::metal::cuda {

using Result = int;
using DeviceId = int;
using DevicePointer = uint64_t;
using ContextHandle = struct ContextTag *;
using ModuleHandle = struct ModuleTag *;
using FunctionHandle = struct FunctionTag *;
using StreamHandle = struct StreamTag *;
using EventHandle = struct EventTag *;
using GraphHandle = struct GraphTag *;
using GraphExecHandle = struct GraphExecTag *;

inline constexpr Result kSuccess = 0, kNotReady = 600;

enum DeviceAttribute : int {
    kAttributeMaxThreads = 1,
    kAttributeSharedMemory = 8,
    kAttributeWarpSize = 10,
    kAttributeMajor = 75,
    kAttributeMinor = 76,
};
enum FunctionAttribute : int { kFunctionMaxThreads = 0, kFunctionSharedMemory = 1 };
enum HostFlags : unsigned { kHostPortable = 1, kHostMapped = 2 };
inline constexpr unsigned kStreamNonBlocking = 1, kEventDefault = 0, kEventNoTiming = 2;
inline constexpr int kCaptureRelaxed = 2;  // of captures, and of threads
inline constexpr int kCaptureNone = 0;     // of a stream's capture status

struct LaunchAttribute {
    int id;
    int pad;
    union {
        char bytes[64];
        int programmatic;
    } value;
};
static_assert(sizeof(LaunchAttribute) == 72);
inline constexpr int kLaunchProgrammatic = 6;  // programmatic stream serialization

struct LaunchConfig {
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    StreamHandle stream;
    LaunchAttribute *attributes;
    unsigned attribute_count;
};

struct GraphUpdateResult {
    int result;
    void *error_node, *error_from_node;
};

struct Api {
    Result (*init)(unsigned);
    Result (*driver_version)(int *);
    Result (*error_name)(Result, const char **);
    Result (*error_string)(Result, const char **);
    Result (*device_count)(int *);
    Result (*device_get)(DeviceId *, int);
    Result (*device_name)(char *, int, DeviceId);
    Result (*device_memory)(size_t *, DeviceId);
    Result (*device_attribute)(int *, int, DeviceId);
    Result (*retain_context)(ContextHandle *, DeviceId);
    Result (*push_context)(ContextHandle);
    Result (*pop_context)(ContextHandle *);
    Result (*exchange_capture_mode)(int *);
    Result (*allocate)(DevicePointer *, size_t);
    Result (*free)(DevicePointer);
    Result (*host_allocate)(void **, size_t, unsigned);
    Result (*host_free)(void *);
    Result (*host_register)(void *, size_t, unsigned);
    Result (*host_unregister)(void *);
    Result (*host_pointer)(DevicePointer *, void *, unsigned);
    Result (*fill)(DevicePointer, unsigned char, size_t, StreamHandle);
    Result (*copy)(DevicePointer, DevicePointer, size_t, StreamHandle);
    Result (*load_module)(ModuleHandle *, const void *);
    Result (*unload_module)(ModuleHandle);
    Result (*get_function)(FunctionHandle *, ModuleHandle, const char *);
    Result (*function_attribute)(int *, int, FunctionHandle);
    Result (*launch)(const LaunchConfig *, FunctionHandle, void **, void **);
    Result (*stream_create)(StreamHandle *, unsigned);
    Result (*stream_destroy)(StreamHandle);
    Result (*stream_wait)(StreamHandle);
    Result (*stream_id)(StreamHandle, unsigned long long *);
    Result (*stream_capture)(StreamHandle, int *, unsigned long long *, GraphHandle *, const void **,
                             size_t *);
    Result (*stream_await)(StreamHandle, EventHandle, unsigned);
    Result (*context_wait)();
    Result (*event_create)(EventHandle *, unsigned);
    Result (*event_destroy)(EventHandle);
    Result (*event_record)(EventHandle, StreamHandle);
    Result (*event_query)(EventHandle);
    Result (*event_wait)(EventHandle);
    Result (*event_elapsed)(float *, EventHandle, EventHandle);
    Result (*begin_capture)(StreamHandle, int);
    Result (*end_capture)(StreamHandle, GraphHandle *);
    Result (*graph_instantiate)(GraphExecHandle *, GraphHandle, unsigned long long);
    Result (*graph_update)(GraphExecHandle, GraphHandle, GraphUpdateResult *);
    Result (*graph_launch)(GraphExecHandle, StreamHandle);
    Result (*graph_destroy)(GraphHandle);
    Result (*graph_exec_destroy)(GraphExecHandle);
};

// libcuda, opened and initialised at the first call in this process. Null: why_no_api() says why.
const Api *api();
const std::string &why_no_api();

// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"
std::string error_text(Result result);

}  // namespace qwisp::metal::cuda
