#include "cpu_driver.h"

#include <unistd.h>

#include <cstring>
#include <exception>

#include "cpu_memory.h"
#include "cpu_module.h"
#include "images.h"
#include "sha256.h"
#include "vector/twins.h"

namespace qwisp::metal {

namespace {

constexpr std::string_view kExecutor = "simt";
constexpr const char *kContractMacro = "QWISP_CONTRACT_COMPILER";

bool has_fma() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma") != 0;
#else
    return true;
#endif
}

CpuMemory &memory_of(Memory *memory) { return *static_cast<CpuMemory *>(memory); }

std::string run_one(const Copy &copy) {
    CpuMemory &from = memory_of(copy.from), &to = memory_of(copy.to);
    if (!from.holds(copy.from_offset, copy.length) || !to.holds(copy.to_offset, copy.length)) {
        return "copy of " + std::to_string(copy.length) + " bytes leaves its buffer";
    }
    std::memmove(to.data() + copy.to_offset, from.data() + copy.from_offset, copy.length);
    to.contents_changed();
    return {};
}

std::string run_one(const Fill &fill) {
    CpuMemory &to = memory_of(fill.to);
    if (!to.holds(fill.offset, fill.length)) {
        return "fill of " + std::to_string(fill.length) + " bytes leaves its buffer";
    }
    std::memset(to.data() + fill.offset, fill.value, fill.length);
    to.contents_changed();
    return {};
}

// After the dispatch: what anybody derives meanwhile, perhaps from half of the writes, bears the old id.
void note_writes(const Dispatch &dispatch) {
    for (const Argument &argument : dispatch.kernel->info().arguments) {
        if (!argument.writes || argument.index >= dispatch.bindings.size()) continue;
        Memory *const memory = dispatch.bindings[argument.index].memory;
        if (memory != nullptr && memory_of(memory).is_private()) memory_of(memory).contents_changed();
    }
}

uint64_t weights_of(const std::vector<Command> &commands) {
    uint64_t weights = 0;
    for (const Command &command : commands) {
        if (const auto *dispatch = std::get_if<Dispatch>(&command)) weights += vector::weights_of(*dispatch);
    }
    return weights;
}

// How many commands from `first` on may change places.
size_t phase_length(const std::vector<Command> &commands, size_t first) {
    const auto *const start = std::get_if<Dispatch>(&commands[first]);
    size_t end = first + 1;
    for (; start != nullptr && end < commands.size(); end++) {
        const auto *const next = std::get_if<Dispatch>(&commands[end]);
        if (next == nullptr || next->phase != start->phase) break;
    }
    return end - first;
}

}  // namespace

Limits CpuDriver::limits() const {
    const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
    const size_t memory = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return {simt::kMaxThreads, simt::kMaxThreadgroupMemory, memory, simt::kLanes, false, memory};
}

std::unique_ptr<Memory> CpuDriver::allocate(size_t length, Storage storage) {
    if (length > limits().max_buffer_length) return nullptr;
    return CpuMemory::allocate(length, storage);
}

std::unique_ptr<Memory> CpuDriver::wrap(void *contents, size_t length) {
    return std::make_unique<CpuMemory>(contents, length);
}

std::unique_ptr<Module> CpuDriver::compile(std::string_view text,
                                           const std::map<std::string, std::string> &macros,
                                           std::string *error) {
    bool contracted = false;
    for (const auto &[name, value] : macros) {
        if (name != kContractMacro || value != "1") {
            *error = "the CPU driver has no kernels compiled with the macro " + name + "=" + value +
                     ", only with " + kContractMacro + "=1 or none";
            return nullptr;
        }
        contracted = true;
    }
    if (contracted && !has_fma()) {
        *error =
            std::string(kContractMacro) + "=1 needs a processor with fused multiply-add instructions (FMA)";
        return nullptr;
    }
    const simt::KernelImage *const image = simt::find_image(text, contracted);
    if (image == nullptr) {
        *error = "the CPU driver runs only shader text compiled into this build (sha256 " +
                 simt::list_images() + "), not a text of " + std::to_string(text.size()) +
                 " bytes with sha256 " + sha256_hex(text) + (contracted ? " and contraction" : "");
        return nullptr;
    }
    return std::make_unique<CpuModule>(*image);
}

std::string CpuDriver::execute(const Dispatch &dispatch, simt::Seed seed) const {
    simt::Launch launch{};
    std::string error = static_cast<const CpuKernel *>(dispatch.kernel)->prepare(dispatch, launch);
    if (!error.empty()) return error;
    std::optional<simt::SeededChoices> seeded;  // of each dispatch alone, whatever came before it
    if (seed) seeded.emplace(*seed);
    launch.choices = choices_ || !seeded ? choices_ : &*seeded;
    launch.limits = runaway_limits_;
    return simt::execute(launch);
}

std::string CpuDriver::run(const std::vector<Command> &commands) {
    try {
        const simt::Seed seed = shuffle_seed();
        const vector::Target *const target = seed || choices_ ? nullptr : target_.load();
        vector::Team::Session session(vector::Team::shared(), target ? weights_of(commands) : 0);
        const auto run_dispatch = [&](const Dispatch &dispatch) -> std::string {
            std::string error;
            if (!target || !vector::run_twin(*target, dispatch, session)) error = execute(dispatch, seed);
            note_writes(dispatch);
            return error;
        };
        for (size_t first = 0; first < commands.size();) {
            const size_t count = phase_length(commands, first);
            const simt::Permutation order(count, seed);
            for (size_t i = 0; i < count; i++) {
                std::string error = std::visit(
                    [&](const auto &command) {
                        if constexpr (std::is_same_v<decltype(command), const Dispatch &>) {
                            return run_dispatch(command);
                        } else {
                            return run_one(command);
                        }
                    },
                    commands[first + order(i)]);
                if (!error.empty()) return error;
            }
            first += count;
        }
        return {};
    } catch (const std::exception &error) {
        return std::string("error in the CPU driver: ") + error.what();
    }
}

std::optional<uint64_t> CpuDriver::shuffle_seed() const {
    return has_seed_ ? std::optional<uint64_t>(seed_) : std::nullopt;
}

void CpuDriver::set_shuffle_seed(std::optional<uint64_t> seed) {
    seed_ = seed.value_or(0);
    has_seed_ = seed.has_value();
}

std::string_view CpuDriver::kernels() const {
    const vector::Target *const target = target_;
    return target == nullptr ? kExecutor : target->name;
}

bool CpuDriver::set_kernels(std::string_view name) {
    const vector::Target *const target = vector::find_target(name);
    if (target == nullptr && name != kExecutor) return false;
    target_ = target;
    return true;
}

std::vector<std::string_view> CpuDriver::kernel_names() const {
    std::vector<std::string_view> names;
    for (const vector::Target *target : vector::targets()) names.emplace_back(target->name);
    names.push_back(kExecutor);
    return names;
}

uint32_t CpuDriver::threads() const { return vector::Team::shared().threads(); }

void CpuDriver::set_threads(uint32_t threads) { vector::Team::shared().set_threads(threads); }

}  // namespace qwisp::metal
