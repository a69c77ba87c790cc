#include "cuda_driver.h"

#include <algorithm>
#include <array>

#include "cuda_memory.h"
#include "metal_runtime/drivers/cpu/cpu_module.h"
#include "metal_runtime/drivers/cpu/images.h"
#include "nvrtc.h"

namespace qwisp::metal {
namespace {

constexpr const char *kContractMacro = "QWISP_CONTRACT_COMPILER";
constexpr int kDependentDriver = 12030;  // CUDA 12.3 captures such launches in graphs

bool takes_dependent(const cuda::Gpu &gpu) {
    int version = 0;
    return gpu.arch() >= cuda::kDependentArch && cuda::api()->driver_version(&version) == cuda::kSuccess &&
           version >= kDependentDriver;
}

constexpr std::array<std::pair<Launching, std::string_view>, 3> kLaunchings = {{
    {Launching::dependent, "dependent"},
    {Launching::graph, "graph"},
    {Launching::stream, "stream"},
}};

// Signatures alone: what the reflection follows from, beside route_types.h.
std::vector<std::pair<std::string, std::string>> signatures_of(std::string_view text) {
    std::vector<std::pair<std::string, std::string>> all;
    for (const KernelText &kernel : kernels_in(text)) all.emplace_back(kernel.name, kernel.signature);
    return all;
}

}  // namespace

CudaDriver::CudaDriver(std::shared_ptr<cuda::Gpu> gpu)
    : gpu_(std::move(gpu)),
      store_(std::make_shared<CodeStore>(gpu_)),
      launching_(std::make_shared<std::atomic<Launching>>(takes_dependent(*gpu_) ? Launching::dependent
                                                                                 : Launching::graph)) {}

Limits CudaDriver::limits() const {
    Limits limits{size_t(gpu_->max_threads()),
                  size_t(gpu_->shared_memory()),
                  gpu_->memory(),
                  32,
                  false,
                  gpu_->memory()};
    limits.unified_memory = false;
    return limits;
}

std::unique_ptr<Memory> CudaDriver::allocate(size_t length, Storage storage) {
    return CudaMemory::allocate(gpu_, length, storage);
}

std::unique_ptr<Memory> CudaDriver::wrap(void *contents, size_t length) {
    return CudaMemory::wrap(gpu_, contents, length);
}

std::unique_ptr<Module> CudaDriver::compile(std::string_view text,
                                            const std::map<std::string, std::string> &macros,
                                            std::string *error) {
    if (!gpu_->lost().empty()) {
        *error = gpu_->lost();
        return nullptr;
    }
    bool contracted = false;
    std::vector<std::string> options = {"--gpu-architecture=sm_" + std::to_string(gpu_->arch()),
                                        "--std=c++20",
                                        "--device-as-default-execution-space",
                                        "--diag-suppress=161,177",
                                        "--ftz=false",
                                        "--prec-div=true",
                                        "--prec-sqrt=true"};
    for (const auto &[name, value] : macros) {
        contracted = contracted || (name == kContractMacro && value == "1");
        options.push_back("-D" + name + "=" + value);
    }
    options.push_back(contracted ? "--fmad=true" : "--fmad=false");
    const simt::KernelImage *const own = simt::own_image();
    const std::string_view own_text(own->text, own->text_length);
    if (text != own_text && signatures_of(text) != signatures_of(own_text)) {
        *error =
            "the CUDA driver takes texts whose kernels have the names and signatures of those in this build "
            "only";
        return nullptr;
    }
    return std::make_unique<CudaModule>(store_, gpu_->arch(), std::string(text), CpuModule(*own).functions(),
                                        std::move(options));
}

std::string CudaDriver::run(const std::vector<Command> &commands) {
    double seconds = 0;
    return open_line()->start(commands)->finish(&seconds);
}

std::string_view CudaDriver::kernels() const {
    const auto is_it = [this](const auto &each) { return each.first == *launching_; };
    return std::find_if(kLaunchings.begin(), kLaunchings.end(), is_it)->second;
}

bool CudaDriver::set_kernels(std::string_view name) {
    for (const std::string_view known : kernel_names()) {
        if (known != name) continue;
        const auto is_it = [name](const auto &each) { return each.second == name; };
        *launching_ = std::find_if(kLaunchings.begin(), kLaunchings.end(), is_it)->first;
        return true;
    }
    return false;
}

std::vector<std::string_view> CudaDriver::kernel_names() const {
    std::vector<std::string_view> names;
    for (const auto &[launching, name] : kLaunchings) {
        if (launching != Launching::dependent || takes_dependent(*gpu_)) names.push_back(name);
    }
    return names;
}

std::shared_ptr<CudaDriver> find_cuda_driver(std::string *why) {
    const auto gpu = std::make_shared<cuda::Gpu>(0);
    *why = gpu->unusable().empty() ? cuda::why_no_nvrtc() : gpu->unusable();
    return why->empty() ? std::make_shared<CudaDriver>(gpu) : nullptr;
}

}  // namespace qwisp::metal
