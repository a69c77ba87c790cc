// Modules and kernels of the CPU driver: views of a kernel image.
#pragma once
#include "metal_runtime/device/driver.h"
#include "metal_runtime/drivers/cpu/executor.h"
#include "route_types.h"

namespace qwisp::metal {

// The kernels of the package's own text, which the vector targets know. `none`: any other.
enum class OwnKernel {
    none,
#define QWISP_NAME(name) name,
    QWISP_KERNELS(QWISP_NAME)
#undef QWISP_NAME
};

class CpuKernel final : public Kernel {
  public:
    CpuKernel(const simt::KernelImage &image, const simt::FunctionImage &function, FunctionInfo info,
              const ConstantValues &constants);

    const FunctionInfo &info() const override { return info_; }
    size_t max_threads() const override { return simt::kMaxThreads; }
    size_t threadgroup_memory() const override { return threadgroup_memory_; }

    OwnKernel own() const { return own_; }
    uint32_t constant(uint32_t index) const { return constants_[index]; }  // its bits

    // Everything but the seed. Returns an empty string, or what is wrong with the bindings.
    std::string prepare(const Dispatch &dispatch, simt::Launch &launch) const;

  private:
    std::string bind(const Argument &argument, const Binding &binding, simt::Region &region) const;
    bool is_absent(const Argument &argument) const;

    const simt::KernelImage &image_;
    const simt::FunctionImage &function_;
    FunctionInfo info_;
    const OwnKernel own_;
    std::array<uint32_t, simt::kMaxConstants> constants_{};  // bits
    uint32_t constants_set_ = 0;
    size_t threadgroup_memory_ = 0;
};

class CpuModule final : public Module {
  public:
    explicit CpuModule(const simt::KernelImage &image);

    const std::vector<FunctionInfo> &functions() const override { return functions_; }
    std::unique_ptr<Kernel> specialise(std::string_view name, const ConstantValues &constants,
                                       std::string *error) override;

  private:
    const simt::KernelImage &image_;
    std::vector<FunctionInfo> functions_;
};

}  // namespace qwisp::metal
