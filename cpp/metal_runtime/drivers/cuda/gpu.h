// One CUDA device: its properties, its context (made at first need), and whether it is still there.
#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include "api.h"

namespace qwisp::metal::cuda {

inline constexpr int kDependentArch = 90;  // from here on a kernel may start early: griddepcontrol

class Gpu {
  public:
    // Reads properties only: no context is made, so no memory of the device is taken.
    explicit Gpu(int index);
    ~Gpu();
    Gpu(const Gpu &) = delete;
    Gpu &operator=(const Gpu &) = delete;

    // Empty if this device can be used; else why not.
    const std::string &unusable() const { return unusable_; }
    const std::string &name() const { return name_; }
    size_t memory() const { return memory_; }
    int max_threads() const { return max_threads_; }
    int shared_memory() const { return shared_memory_; }
    int arch() const { return arch_; }  // 90 for compute capability 9.0

    // Empty if the device works; else why no further work can run. An error of a running kernel is the end of
    // a CUDA context, and so of this device in this process.
    std::string lost() const;
    // The text of a failure, or an empty string. Errors that end the context are remembered.
    std::string check(const char *call, Result result);
    void lose(const std::string &why);
    // With the context current: zeroes memory of the device, and waits for that.
    std::string zero(DevicePointer address, size_t length);
    void after_fork_in_child();

  private:
    friend class Current;
    std::string context(ContextHandle *context);

    DeviceId id_ = 0;
    std::string name_, unusable_;
    size_t memory_ = 0;
    int max_threads_ = 0, shared_memory_ = 0, arch_ = 0;
    std::mutex mutex_;
    ContextHandle context_ = nullptr;
    StreamHandle zeroes_ = nullptr;  // the null stream would wait for what others do, and they for it
    std::atomic<const std::string *> lost_ = nullptr;  // set once
};

// Makes the device's primary context the calling thread's, for a scope; whoever else uses CUDA in this
// process (PyTorch) has the same one. Meanwhile calls of this thread do not disturb a capture of theirs.
class Current {
  public:
    explicit Current(Gpu &gpu);
    ~Current();
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;

    explicit operator bool() const { return error_.empty(); }
    const std::string &error() const { return error_; }  // why there is no context

  private:
    std::string error_;
    int capture_mode_ = kCaptureRelaxed;
};

}  // namespace qwisp::metal::cuda
