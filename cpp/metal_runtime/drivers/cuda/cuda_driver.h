// The driver for NVIDIA GPUs: the shader text compiled by NVRTC, run through the CUDA driver's interface.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cuda_lane.h"
#include "cuda_module.h"
#include "cuda_streams.h"
#include "gpu.h"
#include "metal_runtime/device/driver.h"

namespace qwisp::metal {

class CudaDriver final : public Driver {
  public:
    explicit CudaDriver(std::shared_ptr<cuda::Gpu> gpu);

    std::string_view name() const override { return "cuda"; }
    std::string_view device_name() const override { return gpu_->name(); }
    Limits limits() const override;
    std::unique_ptr<Memory> allocate(size_t length, Storage storage) override;
    std::unique_ptr<Memory> wrap(void *contents, size_t length) override;
    // Any text whose kernels have the signatures of the text in this build.
    std::unique_ptr<Module> compile(std::string_view text, const std::map<std::string, std::string> &macros,
                                    std::string *error) override;
    std::string run(const std::vector<Command> &commands) override;
    std::unique_ptr<Line> open_line() override { return std::make_unique<CudaLane>(gpu_, launching_); }

    std::string_view kernels() const override;
    bool set_kernels(std::string_view name) override;
    std::vector<std::string_view> kernel_names() const override;
    Streams *streams() override { return &streams_; }
    void after_fork_in_child() override { gpu_->after_fork_in_child(); }

  private:
    const std::shared_ptr<cuda::Gpu> gpu_;
    const std::shared_ptr<CodeStore> store_;
    const std::shared_ptr<std::atomic<Launching>>
        launching_;  // shared with the lanes, which may outlive this
    CudaStreams streams_{gpu_, *launching_};
};

// The first NVIDIA GPU, or null and why there is none that can be used.
std::shared_ptr<CudaDriver> find_cuda_driver(std::string *why);

}  // namespace qwisp::metal
