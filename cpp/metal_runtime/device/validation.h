// What the device classes check, as Metal does with API validation on.
//
// Misuse throws ValidationError out of the offending metal-cpp call. If the call belongs to a command buffer
// (or to one of its encoders) the buffer remembers the first misuse, and commit() throws as well, naming it.
// Not misuse, and reported as Metal does: what fails with an NSError or nil (shaders that do not compile,
// unknown functions, function constants that are missing or of the wrong type, a threadgroup beyond the
// device in a pipeline descriptor, memory that cannot be had), and faults of kernels while they run, which
// end their command buffer with status Error.
#pragma once
#include <stdexcept>
#include <string>

namespace qwisp::metal {

// X(name, what is refused). cpp/tests/test_device_misuse.cpp commits each of them.
#define QWISP_METAL_MISUSES(X)                                                                              \
    X(null_argument, "null where the call needs an object, a string or memory")                             \
    X(foreign_object, "a buffer, function, pipeline or event of another device")                            \
    X(buffer_length, "newBuffer: length 0")                                                                 \
    X(buffer_storage, "newBuffer: memoryless storage; private storage with the host's bytes")               \
    X(buffer_no_copy, "newBuffer without a copy: pointer or length is no multiple of the page size")        \
    X(modified_range, "didModifyRange, synchronizeResource: not managed storage; range beyond the buffer")  \
    X(queue_length, "newCommandQueue: room for 0 command buffers")                                          \
    X(queue_stalled, "commandBuffer: the queue is full, and nothing is committed that could make room")     \
    X(wait_in_handler, "a handler waits for its own queue")                                                 \
    X(wait_before_commit, "waitUntilCompleted, waitUntilScheduled: before commit")                          \
    X(commit_twice, "commit: committed already")                                                            \
    X(commit_open_encoder, "commit: an encoder has not ended")                                              \
    X(commit_after_misuse, "commit: after a misuse while encoding")                                         \
    X(enqueue_twice, "enqueue: enqueued or committed already")                                              \
    X(changed_after_commit, "an encoder, an event or a handler for a committed command buffer")             \
    X(encoder_open, "a second encoder, or an event, while an encoder is open")                              \
    X(encoder_ended, "an encoder used after endEncoding")                                                   \
    X(encoder_dropped, "an encoder released without endEncoding; noticed by commit")                        \
    X(debug_group, "popDebugGroup without pushDebugGroup")                                                  \
    X(slot_range, "buffer slot 31 and above; setBuffers beyond it")                                         \
    X(offset_range, "setBuffer, setBufferOffset: offset at or beyond the end of the buffer")                \
    X(offset_unbound, "setBufferOffset: no buffer in the slot")                                             \
    X(bytes_length, "setBytes: 0 bytes, or more than 4096")                                                 \
    X(threadgroup_memory,                                                                                   \
      "setThreadgroupMemoryLength: index 31 and above; no multiple of 16; beyond the device")               \
    X(no_pipeline, "dispatch: no pipeline state is set")                                                    \
    X(grid_empty, "dispatch: a dimension of the grid is 0")                                                 \
    X(grid_range, "dispatch: more threads than 64 bits count, or 2^32 threadgroups in a dimension")         \
    X(group_empty, "dispatch: a dimension of the threadgroup is 0")                                         \
    X(group_range, "dispatch: more threads a threadgroup than the pipeline allows")                         \
    X(group_shape, "dispatch: not the threadgroup that the pipeline descriptor promised")                   \
    X(group_uniform, "dispatchThreads: no multiple of the threadgroup on a device that needs one")          \
    X(binding_missing, "dispatch: nothing is bound to a slot that the kernel uses")                         \
    X(binding_read_only, "dispatch: setBytes data in a slot that the kernel writes")                        \
    X(binding_alignment, "dispatch: buffer offset not aligned to the argument's type")                      \
    X(binding_length,                                                                                       \
      "dispatch: constant data shorter than its type; a buffer without room for one element")               \
    X(hazard, "concurrent encoder: conflicting access to a buffer with no barrier between (see hazards.h)") \
    X(barrier_scope, "memoryBarrier: no scope, an unknown scope, or no resources")                          \
    X(blit_range, "copyFromBuffer, fillBuffer: 0 bytes; beyond the end of a buffer")                        \
    X(blit_alignment, "copyFromBuffer, fillBuffer: offset or length no multiple of 4, which macOS demands") \
    X(blit_overlap, "copyFromBuffer: source and destination overlap")

enum class Misuse {
#define QWISP_METAL_MISUSE_NAME(name, what) name,
    QWISP_METAL_MISUSES(QWISP_METAL_MISUSE_NAME)
#undef QWISP_METAL_MISUSE_NAME
};

class ValidationError : public std::logic_error {
  public:
    ValidationError(Misuse misuse, const std::string &message) : std::logic_error(message), misuse_(misuse) {}
    Misuse misuse() const { return misuse_; }

  private:
    Misuse misuse_;
};

}  // namespace qwisp::metal
