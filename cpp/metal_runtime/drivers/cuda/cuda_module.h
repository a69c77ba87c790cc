// Shader text on a CUDA device: its reflection, and its kernels with their constants fixed.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu.h"
#include "metal_runtime/device/driver.h"

namespace qwisp::metal {

// Machine code in the device. It stays loaded for ever: graphs hold on to functions.
struct CudaCode {
    cuda::FunctionHandle function = nullptr;
    size_t max_threads = 0, threadgroup_memory = 0;
};

// All that a process has loaded.
class CodeStore {
  public:
    explicit CodeStore(std::shared_ptr<cuda::Gpu> gpu) : gpu_(std::move(gpu)) {}

    struct Wanted {
        std::string text, kernel;
        std::vector<std::string> options;
    };
    // Compiles what neither this process nor the cache folder has. Null and `error` if that fails.
    const CudaCode *find(const Wanted &wanted, std::string *error);

  private:
    std::string load(const std::string &cubin, const std::string &kernel, CudaCode &code);

    const std::shared_ptr<cuda::Gpu> gpu_;
    std::mutex mutex_;
    std::map<std::string, CudaCode> codes_;
};

class CudaKernel final : public Kernel {
  public:
    CudaKernel(FunctionInfo info, const CudaCode &code, bool overlaps, std::vector<bool> early)
        : info_(std::move(info)), code_(code), overlaps_(overlaps), early_(std::move(early)) {}

    const FunctionInfo &info() const override { return info_; }
    size_t max_threads() const override { return code_.max_threads; }
    size_t threadgroup_memory() const override { return code_.threadgroup_memory; }

    cuda::FunctionHandle function() const { return code_.function; }
    // It says itself when it needs what the kernel before it wrote, so it may start before that one has
    // ended.
    bool overlaps() const { return overlaps_; }
    // Of a kernel that overlaps: this argument may be read before that point.
    bool is_early(size_t argument) const { return early_[argument]; }

  private:
    const FunctionInfo info_;
    const CudaCode &code_;
    const bool overlaps_;
    const std::vector<bool> early_;
};

// What the text says of its kernels: one entry for each QWISP_KERNEL or QWISP_KERNEL_OF, in order.
struct KernelText {
    std::string name, signature, body;
};
std::vector<KernelText> kernels_in(std::string_view text);

class CudaModule final : public Module {
  public:
    CudaModule(std::shared_ptr<CodeStore> store, int arch, std::string text,
               std::vector<FunctionInfo> functions, std::vector<std::string> options);

    const std::vector<FunctionInfo> &functions() const override { return functions_; }
    std::unique_ptr<Kernel> specialise(std::string_view name, const ConstantValues &constants,
                                       std::string *error) override;

  private:
    const std::shared_ptr<CodeStore> store_;
    const int arch_;
    const std::string text_;
    const std::vector<KernelText> kernels_;
    const std::vector<FunctionInfo> functions_;
    const std::vector<std::string> options_;
};

}  // namespace qwisp::metal
