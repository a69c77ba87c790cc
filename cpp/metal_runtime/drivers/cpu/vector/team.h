// A few threads that share the dispatches of one command buffer with the thread that runs it.
//
// Helpers stay awake for a moment after work, so that a run of dispatches pays one wake-up at most; then
// they sleep. One command buffer uses them at a time: the others run on their own threads alone, as they
// do where the caller is already parallel.
#pragma once
#include <atomic>
#include <cstdint>

#include "metal_runtime/device/fork.h"

namespace qwisp::metal::vector {

class Team final : public ForkListener {
  public:
    static Team &shared();

    // Counts the calling thread. 0: as many as processors are available to the process, kMost at most.
    void set_threads(uint32_t threads);
    uint32_t threads() const;

    class Session {
      public:
        // Sleeping helpers are woken if all that follows reads enough weights (counted once a row).
        Session(Team &team, uint64_t weights);
        ~Session();
        Session(const Session &) = delete;
        Session &operator=(const Session &) = delete;

        uint32_t threads() const { return held_ ? threads_ : 1; }
        // body(part) for each part below `parts`, on any thread; returns when all are done. Helpers that fell
        // asleep since are woken if the parts read enough weights.
        template <typename Body>
        void run(uint32_t parts, uint64_t weights, const Body &body) {
            if (threads() == 1 || parts == 1) {
                for (uint32_t part = 0; part < parts; part++) body(part);
                return;
            }
            if (weights >= kWorthWaking) team_.wake();
            team_.share(
                parts, [](const void *of, uint32_t part) { (*static_cast<const Body *>(of))(part); }, &body);
        }

      private:
        Team &team_;
        uint32_t threads_;
        bool held_ = false;
    };

    static constexpr uint32_t kMost = 4;
    // Weights whose reading takes about as long as waking a thread: below, a sleeping helper would come late.
    static constexpr uint64_t kWorthWaking = 3u << 19;

  private:
    using Function = void (*)(const void *body, uint32_t part);

    Team();
    void share(uint32_t parts, Function function, const void *body);
    void work_one(uint64_t ticket);
    void help(uint32_t helper);
    void start_helpers(uint32_t count);
    void wake();
    void keep_off_this_processor();
    void recover_in_child() override;  // which has no helpers

    const uint32_t available_;  // processors, kMost at most
    std::atomic<uint32_t> wanted_ = 0;
    std::atomic<uint32_t> helpers_ = 0;
    std::atomic<int32_t> ids_[kMost - 1] =
        {};  // of the first helpers, as Linux counts threads; 0: not yet known
    std::atomic<uint32_t> sleepers_ = 0;
    std::atomic<uint32_t> wakes_ = 0;
    std::atomic<bool> busy_ = false;
    // A job: epoch (high 32 bits), parts, next part (16 bits each). Claiming a part is one compare-exchange,
    // which fails when the job has changed since `function_` and `body_` were read.
    alignas(64) std::atomic<uint64_t> ticket_ = 0;
    std::atomic<Function> function_ = nullptr;
    std::atomic<const void *> body_ = nullptr;
    alignas(64) std::atomic<uint32_t> left_ = 0;
    const ForkRegistration registration_{this};
};

}  // namespace qwisp::metal::vector
