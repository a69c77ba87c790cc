// A CUDA driver and an NVRTC without a device, for the tests of the CUDA driver here. Host memory is the
// device's memory, at other addresses than the host's; a stream runs nothing before somebody waits for it;
// what real CUDA leaves undefined (memory freed too early, the null stream) is an error. Tests find it
// through LD_LIBRARY_PATH under the names of the real libraries, and steer it with this.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace qwisp::test {

struct FakeLaunch {
    std::string kernel;
    uint64_t stream;
    bool overlaps;  // launched as a programmatic dependent
};

class FakeCuda {
  public:
    static constexpr int kDevices = 2, kMaxErrorCode = 999;
    static constexpr double kLaunchSeconds = 1e-3;  // on the device's clock; copies and fills take half of it

    // As in a new process. Nothing may use the driver meanwhile.
    virtual void reset() = 0;

    // The nth call from now on of an entry point ("": of any that the test may fail) returns `result`
    // instead.
    virtual void fail(const std::string &entry, int nth, int result) = 0;
    virtual bool has_failed() const = 0;
    virtual int calls(const std::string &entry) const = 0;  // since reset

    virtual void set_version(int version) = 0;  // 13000 for CUDA 13.0

    // What a kernel of this name does; its parameters' sizes. Others do nothing.
    using Body = std::function<void(void **parameters)>;
    virtual void set_kernel(const std::string &name, std::vector<size_t> parameter_sizes, Body body) = 0;
    // The nth kernel that runs from now on faults: until its end the context returns `result`.
    virtual void fault(int nth, int result) = 0;
    virtual const std::vector<FakeLaunch> &executed() const = 0;  // since reset
    // While held, streams make no progress, and whoever waits for one is kept.
    virtual void hold(bool on) = 0;
    // Somebody else captures a stream with mode "global": a call that may not be made meanwhile breaks that.
    virtual void capture_elsewhere(bool on) = 0;
    virtual bool broke_capture() const = 0;

    // Objects that exist: "device", "host" and "registered" memory, "stream", "event", "graph", "exec",
    // "module".
    virtual std::map<std::string, int> live() const = 0;
    virtual int contexts_here() const = 0;      // on this thread's stack
    virtual int capture_mode_here() const = 0;  // of this thread; 0 is CUDA's default, "global"
    virtual void *at(uint64_t device_address) const = 0;

  protected:
    ~FakeCuda() = default;
};

}  // namespace qwisp::test

extern "C" qwisp::test::FakeCuda *qwisp_fake_cuda();
