// One CUDA device: its properties, its context (made at first need), and whether it is still there.
#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include "api.h"

namespace qwisp::metal::cuda {

class Gpu {
  public:
    // Reads properties only: no context is made, so no memory of the device is taken.
    explicit Gpu(int index);

    // Empty if this device can be used; else why not.
    const std::string &unusable() const { return unusable_; }
    const std::string &name() const { return name_; }
    size_t memory() const { return memory_; }
    int max_threads() const { return max_threads_; }
    int shared_memory() const { return shared_memory_; }
    int arch() const { return arch_; }  // 90 for compute capability 9.0

    // Empty if the device works; else why no further work can run. An error of a running kernel is the end of a
    // CUDA context, and so of this device in this process.
    std::string lost() const;
    std::string why_not_current() const;  // after a Current that failed; never empty
    // The text of a failure, or an empty string. Errors that end the context are remembered.
    std::string check(const char *call, Result result);
    void lose(const std::string &why);
    void after_fork_in_child();
    // Zeroes, and waits for them, on a stream of its own: the default stream cannot be used while anybody captures
    // a graph. Within a Current.
    Result clear(DevicePointer address, size_t length);

  private:
    friend class Current;
    ContextHandle context();

    int index_;
    DeviceId id_ = 0;
    std::string name_, unusable_;
    size_t memory_ = 0;
    int max_threads_ = 0, shared_memory_ = 0, arch_ = 0;
    std::mutex mutex_, clearing_;
    StreamHandle clearing_stream_ = nullptr;
    ContextHandle context_ = nullptr;
    std::atomic<const std::string *> lost_ = nullptr;  // set once, never freed
};

// Makes the device's primary context the calling thread's, for a scope; whoever else uses CUDA in this
// process (PyTorch) has the same one. While anybody captures a graph, calls that could disturb it are refused to
// all threads but those that say, as this does for its scope, that they know what they do: what the driver here
// does on streams of its own disturbs none.
class Current {
  public:
    explicit Current(Gpu &gpu);
    ~Current();
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;

    explicit operator bool() const { return pushed_; }

  private:
    bool pushed_;
    int capture_mode_;
};

}  // namespace qwisp::metal::cuda
