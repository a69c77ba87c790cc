// Metal's work on the CPU: the shaders themselves, as C++, on the executor, or their vector twins.
#pragma once
#include <atomic>

#include "metal_runtime/device/driver.h"
#include "metal_runtime/drivers/cpu/executor.h"
#include "metal_runtime/drivers/cpu/vector/targets.h"
#include "metal_runtime/drivers/cpu/vector/team.h"

namespace qwisp::metal {

class CpuDriver final : public Driver {
  public:
    explicit CpuDriver(simt::RunawayLimits limits = {}) : runaway_limits_(limits) {}

    std::string_view name() const override { return "cpu"; }
    std::string_view device_name() const override { return "qwisp software Metal device (CPU)"; }
    Limits limits() const override;
    std::unique_ptr<Memory> allocate(size_t length, Storage storage) override;
    std::unique_ptr<Memory> wrap(void *contents, size_t length) override;
    // Runs only texts that were compiled into this build or loaded by simt::load_kernel_image.
    std::unique_ptr<Module> compile(std::string_view text, const std::map<std::string, std::string> &macros,
                                    std::string *error) override;
    std::string run(const std::vector<Command> &commands) override;

    // With a seed the executor is the adversary (adversary.h): what a GPU may do in any order, it does in
    // one that follows from the seed, the dispatches of a phase included.
    std::optional<uint64_t> shuffle_seed() const override;
    void set_shuffle_seed(std::optional<uint64_t> seed) override;

    // For tests: somebody else makes the adversary's choices. Null: the seed does, if there is one.
    void set_choices(simt::Choices *choices) { choices_ = choices; }

    // A vector target of this processor, or "simt": the executor. With a seed the executor always runs.
    std::string_view kernels() const override;
    bool set_kernels(std::string_view name) override;
    std::vector<std::string_view> kernel_names() const override;
    uint32_t threads() const override;
    void set_threads(uint32_t threads) override;

  private:
    std::string execute(const Dispatch &dispatch, simt::Seed seed) const;

    const simt::RunawayLimits runaway_limits_;
    std::atomic<bool> has_seed_ = false;
    std::atomic<uint64_t> seed_ = 0;
    simt::Choices *choices_ = nullptr;
    std::atomic<const vector::Target *> target_ = vector::targets().front();  // null: the executor
};

}  // namespace qwisp::metal
