// Runs a threadgroup, every thread a fibre of the calling OS thread.
#pragma once
#include <array>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "array_races.h"
#include "executor.h"
#include "fibre.h"
#include "image.h"
#include "schedule.h"
#include "simd.h"
#include "weak_memory.h"

namespace qwisp::simt {

class Threadgroup final : private Services {
  public:
    Threadgroup() = default;
    Threadgroup(const Threadgroup &) = delete;
    Threadgroup &operator=(const Threadgroup &) = delete;

    // Threadgroup number `linear` of the grid. With a memory it shares the device with others and every
    // access that they may notice is watched; launch.choices are set then.
    void start(Launch &launch, uint64_t linear, WeakMemory *memory = nullptr, uint32_t watched = 0);
    // Until it has ended or, if it shares the device, leaves it to others. Whether it has ended.
    bool go_on();
    // Returns an empty string, or the message of the fault that ended it.
    std::string end();

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
    void fence(uint32_t flags, bool acquire, bool release) override;
    uint32_t simd(Rendezvous kind, uint32_t value, uint32_t operand, uint32_t line) override;
    Region *threadgroup_array(const char *name, size_t bytes, size_t alignment) override;
    void undeclared_constant(const char *name, uint32_t index) override;

    int64_t budget_of(const Region &region) const;
    void check(const Access &access, const char *verb, bool reads);

    // Accesses and barriers while it shares the device (threadgroup_watched.cpp).
    struct Barriers {
        uint32_t whole = 0;
        std::array<uint32_t, kMaxThreads / kLanes> simdgroups{};
        Moment now(const Thread &thread) const;
    };
    Party party() const;
    void watch(const Access &access, bool writes);
    uint32_t watch_atomic(const Access &access, AtomicOp op, uint32_t operand);
    void watch_array(const Access &access, bool writes, bool atomic);
    void note_barrier(Rendezvous kind, uint32_t flags, uint32_t simdgroup);
    void preempt();
    [[noreturn]] void race(const Access &access, bool writes, bool atomic, const std::string &with,
                           bool with_writes, bool with_atomic);

    // Messages (threadgroup_messages.cpp).
    std::string name_of(const Region &region) const;
    std::string name_of(const Party &party) const;
    [[noreturn]] void fault(const std::string &what) const;
    std::string describe(const std::string &what, const std::string &where) const;
    std::string describe_stall() const;
    template <class Words>
    static std::string worded(Words words) {  // also where there is no memory for them
        try {
            return words();
        } catch (const std::bad_alloc &) {
            return "out of memory";  // short enough to need none
        }
    }
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
    void leave_to(Thread *next);
    void release(uint32_t first, uint32_t count);
    void run_ready();
    void unwind_all();
    void set_current(Thread &thread);
    uint32_t lanes_of(uint32_t simdgroup) const;

    Launch *launch_ = nullptr;
    WeakMemory *memory_model_ = nullptr;  // null: it has the device for itself
    uint64_t linear_ = 0;
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

    std::array<Region, kMaxSlots> arguments_;  // of a threadgroup that shares the device
    Barriers device_barriers_, array_barriers_;
    std::array<ArrayRaces, 32> races_;

    std::array<Region, 32> arrays_;
    uint32_t array_count_ = 0;
    size_t array_bytes_ = 0;
    alignas(64) std::array<std::byte, kMaxThreadgroupMemory> memory_, shadow_;
};

}  // namespace qwisp::simt
