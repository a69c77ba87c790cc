// Which thread runs next. A thread that must wait switches straight to the next one; one that has finished
// leaves its stack to the next thread that has not started.
#include <algorithm>
#include <exception>

#include "fault.h"
#include "threadgroup.h"

namespace qwisp::simt {

namespace {

struct Unwind {};  // thrown into the threads that are left when a threadgroup has failed

constexpr uint32_t wrap(uint32_t i) {
    static_assert((kMaxThreads & (kMaxThreads - 1)) == 0);
    return i & (kMaxThreads - 1);
}

}  // namespace

uint32_t Threadgroup::lanes_of(uint32_t simdgroup) const {
    return std::min(kLanes, static_cast<uint32_t>(threads_.size()) - simdgroup * kLanes);
}

void Threadgroup::make_ready(Thread &thread) {
    if (thread.state == State::waiting) thread.state = State::ready;
    ready_[wrap(ready_head_ + ready_count_++)] = thread.index;
}

Threadgroup::Thread *Threadgroup::pick() {
    if (stopped_ || ready_count_ == 0) return nullptr;
    if (++steps_ > launch_->limits.steps && !unwinding_) {
        fault_ = worded([this] {
            return describe("runaway: more than " + std::to_string(launch_->limits.steps) +
                                " switches between the threads of one threadgroup",
                            "");
        });
        return nullptr;
    }
    uint32_t &first = ready_[ready_head_];
    if (launch_->choices != nullptr) {
        std::swap(first, ready_[wrap(ready_head_ + launch_->choices->of(Choice::thread, ready_count_))]);
    }
    ready_head_ = wrap(ready_head_ + 1);
    ready_count_--;
    return &threads_[first];
}

void Threadgroup::set_current(Thread &thread) {
    current_ = &thread;
    *image_current_ = &thread;
}

Threadgroup::Stack &Threadgroup::take_stack() {
    if (free_stacks_.empty()) {
        auto stack = std::make_unique<Stack>();
        stack->owner = this;
        stack->fibre = std::make_unique<Fibre>(&Threadgroup::stack_main, stack.get(), stacks_.size());
        free_stacks_.reserve(stacks_.size() + 1);
        stacks_.push_back(std::move(stack));
        free_stacks_.push_back(stacks_.back().get());
    }
    Stack &stack = *free_stacks_.back();
    free_stacks_.pop_back();
    return stack;
}

void Threadgroup::put_on_stack(Thread &thread, Stack &stack) {
    stack.thread = &thread;
    thread.stack = &stack;
    thread.state = State::ready;
}

void Threadgroup::stack_main(void *argument) {
    Stack &stack = *static_cast<Stack *>(argument);
    Threadgroup &group = *stack.owner;
    stack.fibre->started();
    for (;;) {
        group.run_thread(*stack.thread);
        Thread *const next = group.pick();
        if (next != nullptr && next->stack == nullptr) {
            group.put_on_stack(*next, stack);
            group.set_current(*next);
            continue;
        }
        group.free_stacks_.push_back(&stack);
        if (next != nullptr) group.set_current(*next);
        stack.fibre->switch_to(next != nullptr ? *next->stack->fibre : group.main_);
    }
}

void Threadgroup::run_thread(Thread &thread) {
    std::string message;
    try {
        launch_->function->entry(thread);
    } catch (const Unwind &) {
    } catch (Fault &fault) {
        message = std::move(fault.message);
    } catch (const std::exception &error) {
        message = worded([&] { return describe(std::string("error in the executor: ") + error.what(), ""); });
    }
    thread.state = State::finished;
    thread.stack = nullptr;
    finished_++;
    if (!message.empty() && fault_.empty()) {
        fault_ = std::move(message);
        stopped_ = true;
    }
}

bool Threadgroup::arrive(Meeting &meeting, uint32_t expected, Rendezvous kind, uint32_t line) {
    if (meeting.arrived == 0) {
        meeting.kind = kind;
        meeting.line = line;
    }
    if (meeting.kind == kind && meeting.line == line) meeting.arrived++;
    if (meeting.arrived < expected) return false;
    meeting.arrived = 0;
    return true;
}

void Threadgroup::wait(Rendezvous kind, uint32_t line) {
    Thread &self = *current_;
    self.kind = kind;
    self.line = line;
    self.state = State::waiting;
    const bool away = memory_model_ != nullptr && launch_->choices->of(Choice::leave, 2) == 1;
    leave_to(away ? nullptr : pick());
}

// Null: to whoever called go_on().
void Threadgroup::leave_to(Thread *next) {
    Stack &stack = *current_->stack;
    if (next != nullptr) {
        if (next->stack == nullptr) put_on_stack(*next, take_stack());
        set_current(*next);
    }
    stack.fibre->switch_to(next != nullptr ? *next->stack->fibre : main_);
    if (unwinding_) throw Unwind();
}

// The running thread may go on at once, or later.
void Threadgroup::preempt() {
    Choices &choices = *launch_->choices;
    memory_model_->settle();
    if (choices.of(Choice::preempt, 2) == 0) return;
    const bool alone = ready_count_ == 0;
    Thread &self = *current_;
    make_ready(self);
    Thread *const next = alone || choices.of(Choice::leave, 2) == 1 ? nullptr : pick();
    if (next != &self) leave_to(next);
}

void Threadgroup::release(uint32_t first, uint32_t count) {
    for (uint32_t t = first; t < first + count; t++) {
        if (&threads_[t] != current_) make_ready(threads_[t]);
    }
}

// Returns when no thread can go on or the threadgroup has been stopped.
void Threadgroup::run_ready() {
    Thread *const next = pick();
    if (next == nullptr) return;
    if (next->stack == nullptr) put_on_stack(*next, take_stack());
    set_current(*next);
    main_.switch_to(*next->stack->fibre);
}

// Ends the threads that have started, so that their stacks can be used again.
void Threadgroup::unwind_all() {
    unwinding_ = true;
    stopped_ = false;
    ready_count_ = 0;
    for (Thread &thread : threads_) {
        if (thread.stack != nullptr) make_ready(thread);
    }
    run_ready();
}

}  // namespace qwisp::simt
