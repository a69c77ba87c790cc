// Runs one threadgroup after another, every thread a fibre of the calling OS thread.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "executor.h"
#include "fibre.h"
#include "image.h"
#include "schedule.h"
#include "simd.h"

namespace qwisp::simt {

class Threadgroup final : private Services {
  public:
    Threadgroup() = default;
    Threadgroup(const Threadgroup &) = delete;
    Threadgroup &operator=(const Threadgroup &) = delete;

    // Returns an empty string, or the message of the fault that ended it.
    std::string run(Launch &launch, const std::array<uint32_t, 3> &position, uint64_t linear);

  private:
    struct Stack;
    enum class State { unstarted, ready, waiting, finished };
    struct Thread : ThreadContext {
        State state;
        Stack *stack;  // while started and not finished
        uint32_t arrays;
        Rendezvous kind;  // what it waits for
        uint32_t line;
        uint32_t value, operand;  // of a simdgroup operation; value becomes the result
    };
    struct Stack {
        Threadgroup *owner;
        Thread *thread;
        std::unique_ptr<Fibre> fibre;
    };
    // Threads gathering at a rendezvous; those that came for another one than the first are not counted.
    struct Meeting {
        uint32_t arrived = 0;
        Rendezvous kind{};
        uint32_t line = 0;
    };

    void load(const Access &access, void *value) override;
    void store(const Access &access, const void *value) override;
    uint32_t atomic(const Access &access, AtomicOp op, uint32_t operand) override;
    void barrier(Rendezvous kind, uint32_t flags, uint32_t line) override;
    uint32_t simd(Rendezvous kind, uint32_t value, uint32_t operand, uint32_t line) override;
    Region *threadgroup_array(const char *name, size_t bytes, size_t alignment) override;
    void undeclared_constant(const char *name, uint32_t index) override;

    void prepare(Launch &launch, const std::array<uint32_t, 3> &position, uint64_t linear);
    void check(const Access &access, const char *verb, bool reads);

    // Messages (threadgroup_messages.cpp).
    std::string name_of(const Region &region) const;
    [[noreturn]] void fault(const std::string &what) const;
    std::string describe(const std::string &what, const std::string &where) const;
    std::string describe_stall() const;
    std::string describe_threads(uint32_t first, uint32_t count) const;

    // Scheduling (threadgroup_schedule.cpp).
    static void stack_main(void *stack);
    void run_thread(Thread &thread);
    Thread *pick();
    void make_ready(Thread &thread);
    Stack &take_stack();
    void put_on_stack(Thread &thread, Stack &stack);
    bool arrive(Meeting &meeting, uint32_t expected, Rendezvous kind, uint32_t line);
    void wait(Rendezvous kind, uint32_t line);
    void release(uint32_t first, uint32_t count);
    void run_ready();
    void unwind_all();
    void set_current(Thread &thread);
    uint32_t lanes_of(uint32_t simdgroup) const;

    Launch *launch_ = nullptr;
    Random random_{0};
    std::vector<Thread> threads_;
    std::array<Meeting, 32> simdgroups_;
    Meeting whole_;
    std::array<uint32_t, kMaxThreads> ready_;  // a ring
    uint32_t ready_head_ = 0, ready_count_ = 0, finished_ = 0;
    Thread *current_ = nullptr;
    ThreadContext **image_current_ = nullptr;
    uint64_t steps_ = 0;
    bool stopped_ = false, unwinding_ = false;
    std::string fault_;

    Fibre main_;
    std::vector<std::unique_ptr<Stack>> stacks_;
    std::vector<Stack *> free_stacks_;

    std::array<Region, 32> arrays_;
    uint32_t array_count_ = 0;
    size_t array_bytes_ = 0;
    alignas(64) std::array<std::byte, kMaxThreadgroupMemory> memory_, shadow_;
};

}  // namespace qwisp::simt
