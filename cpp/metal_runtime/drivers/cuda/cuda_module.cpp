#include "cuda_module.h"

#include <algorithm>
#include <bit>

#include "cubin_cache.h"
#include "metal_runtime/drivers/cpu/sha256.h"
#include "msl_text.h"
#include "nvrtc.h"

namespace qwisp::metal {
namespace {

constexpr const char *kHeaderName = "msl_cuda.h";

std::string value_text(const std::variant<bool, uint32_t, float> &value) {
    if (const bool *flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const uint32_t *number = std::get_if<uint32_t>(&value)) return std::to_string(*number) + "u";
    const auto bits = std::bit_cast<uint32_t>(std::get<float>(value));  // digits would round it
    return "__builtin_bit_cast(float, " + std::to_string(bits) + "u)";
}

std::string joined(const std::vector<std::string> &texts) {
    std::string all;
    for (const std::string &text : texts) all += text + '\n';
    return all;
}

}  // namespace

std::vector<KernelText> kernels_in(std::string_view text) {
    constexpr std::string_view kWords[] = {"\nQWISP_KERNEL(", "\nQWISP_KERNEL_OF("};
    std::vector<KernelText> kernels;
    size_t at = 0;
    for (;;) {
        size_t next = std::string_view::npos, name = next;
        for (const std::string_view word : kWords) {
            const size_t found = text.find(word, at);
            if (found < next) next = found, name = found + word.size();
        }
        if (!kernels.empty()) kernels.back().body = text.substr(at, text.find("\n}", at) + 2 - at);
        if (next == std::string_view::npos) return kernels;
        const size_t name_end = text.find_first_of(",)", name), open = text.find('{', name);
        if (open == std::string_view::npos) return kernels;
        kernels.push_back({std::string(text.substr(name, name_end - name)),
                           std::string(text.substr(next, open - next)), std::string()});
        at = open;
    }
}

std::string CodeStore::load(const std::string &cubin, const std::string &kernel, CudaCode &code) {
    const cuda::Api &cuda = *cuda::api();
    cuda::ModuleHandle module = nullptr;
    int threads = 0, shared = 0;
    std::string error = gpu_->check("loading a module", cuda.load_module(&module, cubin.data()));
    const auto step = [&](const char *call, cuda::Result result) {
        if (error.empty()) error = gpu_->check(call, result);
        return error.empty();
    };
    if (!error.empty()) return error;
    if (step("finding a kernel", cuda.get_function(&code.function, module, kernel.c_str()))) {
        step("describing a kernel",
             cuda.function_attribute(&threads, cuda::kFunctionMaxThreads, code.function));
        step("describing a kernel",
             cuda.function_attribute(&shared, cuda::kFunctionSharedMemory, code.function));
    }
    if (!error.empty()) cuda.unload_module(module);
    code.max_threads = size_t(threads);
    code.threadgroup_memory = size_t(shared);
    return error;
}

const CudaCode *CodeStore::find(const Wanted &wanted, std::string *error) {
    const std::string key =
        sha256_hex(cuda::nvrtc_version() + '\n' + joined(wanted.options) + cuda::msl_text() + wanted.text);
    if (*error = gpu_->lost(); !error->empty())
        return nullptr;  // before the lock: a fork may have left it locked
    const std::lock_guard lock(mutex_);
    if (const auto found = codes_.find(key); found != codes_.end()) return &found->second;
    std::string cubin = cuda::stored_cubin(key);
    if (cubin.empty()) {
        cubin = cuda::compile({wanted.text, cuda::msl_text(), kHeaderName, wanted.options}, error);
        if (cubin.empty()) return nullptr;
        cuda::store_cubin(key, cubin);
    }
    const cuda::Current current(*gpu_);
    if (!current) {
        *error = current.error();
        return nullptr;
    }
    CudaCode code;
    *error = load(cubin, wanted.kernel, code);
    if (!error->empty()) return nullptr;
    return &codes_.emplace(key, code).first->second;
}

CudaModule::CudaModule(std::shared_ptr<CodeStore> store, int arch, std::string text,
                       std::vector<FunctionInfo> functions, std::vector<std::string> options)
    : store_(std::move(store)),
      arch_(arch),
      text_(std::move(text)),
      kernels_(kernels_in(text_)),
      functions_(std::move(functions)),
      options_(std::move(options)) {}

std::unique_ptr<Kernel> CudaModule::specialise(std::string_view name, const ConstantValues &constants,
                                               std::string *error) {
    const auto info = std::find_if(functions_.begin(), functions_.end(),
                                   [&](const FunctionInfo &each) { return each.name == name; });
    const auto kernel = std::find_if(kernels_.begin(), kernels_.end(),
                                     [&](const KernelText &each) { return each.name == name; });
    if (info == functions_.end() || kernel == kernels_.end()) {
        *error = "the library has no function '" + std::string(name) + "'";
        return nullptr;
    }
    const bool overlaps =
        arch_ >= cuda::kDependentArch && kernel->body.find("QWISP_LET_NEXT_START()") != std::string::npos;
    std::vector<bool> early;
    for (const Argument &argument : info->arguments) {
        const bool is_weights =
            kernel->signature.find(", " + argument.name + ", ") != std::string::npos && [&] {
                const size_t at = kernel->signature.find(", " + argument.name + ", ");
                const size_t word = kernel->signature.rfind("QWISP_", at);
                return kernel->signature.compare(word, 14, "QWISP_WEIGHTS(") == 0;
            }();
        early.push_back(is_weights);
    }

    CodeStore::Wanted wanted{text_, info->name, options_};
    for (const KernelText &each : kernels_) {
        wanted.options.push_back("-DQWISP_ENTRY_" + each.name + "=" +
                                 (each.name == name ? "extern \"C\" __global__" : "static"));
    }
    for (const FunctionInfo &each : functions_) {  // the text names them all, each kernel only its own
        for (const FunctionConstant &constant : each.constants) {
            std::string value = constant.type == ConstantType::boolean ? "false" : "0";
            const auto given = constants.find(constant.index);
            if (&each == &*info) {
                if (given == constants.end() || given->second.index() != size_t(constant.type)) {
                    *error = "function '" + info->name + "' needs a value of type " +
                             type_name(constant.type) + " for its function constant '" + constant.name +
                             "' (index " + std::to_string(constant.index) + ")";
                    return nullptr;
                }
            }
            if (given != constants.end() && given->second.index() == size_t(constant.type))
                value = value_text(given->second);
            const std::string option = "-DQWISP_VALUE_" + constant.name + "=" + value;
            if (std::find(wanted.options.begin(), wanted.options.end(), option) == wanted.options.end())
                wanted.options.push_back(option);
        }
    }
    wanted.options.push_back(std::string("-DQWISP_DEPENDENT=") + (overlaps ? "1" : "0"));
    const CudaCode *const code = store_->find(wanted, error);
    if (code == nullptr) return nullptr;
    return std::make_unique<CudaKernel>(*info, *code, overlaps, std::move(early));
}

}  // namespace qwisp::metal
