#include "metal_runtime/device/command_buffer.h"

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "metal_runtime/device/encoder.h"
#include "metal_runtime/device/streams.h"

namespace qwisp::metal {
namespace {

// Kernels round to nearest and keep subnormals, whatever the host's thread is set to.
class DefaultFloats {
  public:
    DefaultFloats() {
        fegetenv(&before_);
        fesetenv(FE_DFL_ENV);
    }
    ~DefaultFloats() { fesetenv(&before_); }
    DefaultFloats(const DefaultFloats &) = delete;
    DefaultFloats &operator=(const DefaultFloats &) = delete;

  private:
    fenv_t before_;
};

constexpr const char *kForked = "the process forked while this command buffer was in flight";

uint64_t next_id() {
    static std::atomic<uint64_t> last = 0;
    return ++last;
}

// What to say of a failure, also where there is no memory to say it: kOutOfMemory needs none.
constexpr const char *kOutOfMemory = "out of memory";

std::string driver_failure(const std::exception &error) noexcept {
    try {
        return std::string("the driver failed: ") + error.what();
    } catch (const std::bad_alloc &) {
        return kOutOfMemory;
    }
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

CommandBufferState::CommandBufferState(MTL::CommandQueue *queue, bool retains)
    : queue_(NS::RetainPtr(queue)),
      runner_(objc::payload<QueueState>(queue).shared),
      core_(core_of(queue->device())),
      id_(next_id()),
      retains_(retains) {
    const auto lock = runner_->lock();
    storage_ = runner_->spare.take();
}

CommandBufferState::~CommandBufferState() {
    if (status() >= MTL::CommandBufferStatusCommitted) return;
    storage_->clear();
    const auto lock = runner_->lock();
    runner_->spare.give(std::move(storage_));
    runner_->give_up(place_);
}

void CommandBufferState::misuse(Misuse misuse, const std::string &message) {
    const std::string text = "command buffer" + quoted(label) + ": " + message;
    if (!first_misuse_.get()) first_misuse_.set(text);
    refuse(misuse, text);
}

void CommandBufferState::check_changeable(const char *call) {
    if (status() >= MTL::CommandBufferStatusCommitted) {
        misuse(Misuse::changed_after_commit, std::string(call) + ": the command buffer was committed");
    }
}

void CommandBufferState::check_closed(const char *call) {
    if (!open_encoder_) return;
    misuse(Misuse::encoder_open, std::string(call) + ": " + open_encoder_->name() + " is still encoding");
}

void CommandBufferState::begin(Encoder *encoder, const char *call) {
    check_changeable(call);
    check_closed(call);
    open_encoder_ = encoder;
}

void CommandBufferState::end(Encoder *) { open_encoder_ = nullptr; }

void CommandBufferState::drop(const Encoder &encoder) {
    open_encoder_ = nullptr;
    try {
        if (first_misuse_.get()) return;
        first_misuse_.set("command buffer" + quoted(label) + ": " + encoder.name() +
                          " was released without endEncoding");
    } catch (const std::bad_alloc &) {  // as in a destructor
        first_misuse_.set(kOutOfMemory);
    }
    dropped_encoder_ = true;
}

void CommandBufferState::encode_event(const MTL::Event *event, uint64_t value, bool signals) {
    const char *const call = signals ? "encodeSignalEvent" : "encodeWait";
    check_changeable(call);
    check_closed(call);
    if (!event) misuse(Misuse::null_argument, std::string(call) + ": the event is null");
    const EventState *const state = event_class().find(event);
    if (!state || state->core() != core_) {
        misuse(Misuse::foreign_object, std::string(call) + ": the event was not made by this device");
    }
    Segment &segment = storage_->segments.back();
    segment.event = state->value;
    segment.value = value;
    segment.signals = signals;
    storage_->segments.emplace_back();
}

std::span<const Binding> CommandBufferState::keep(std::span<const Binding> bindings) {
    auto *const first = static_cast<Binding *>(storage_->arena.allocate(bindings.size_bytes()));
    std::uninitialized_copy(bindings.begin(), bindings.end(), first);
    return {first, bindings.size()};
}

const void *CommandBufferState::keep(const void *bytes, size_t length) {
    return std::memcpy(storage_->arena.allocate(length), bytes, length);
}

void CommandBufferState::add_handler(BlockPointer block, bool completed) {
    const char *const call = completed ? "addCompletedHandler" : "addScheduledHandler";
    check_changeable(call);
    if (!block.layout) misuse(Misuse::null_argument, std::string(call) + ": the block is null");
    (completed ? completed_handlers_ : scheduled_handlers_).emplace_back(block);
}

void CommandBufferState::pop_debug_group() {
    if (debug_groups_ == 0) misuse(Misuse::debug_group, "popDebugGroup: no debug group was pushed");
    --debug_groups_;
}

void CommandBufferState::count_barriers(uint64_t all, uint64_t superfluous) {
    barriers_ += all;
    superfluous_barriers_ += superfluous;
}

void CommandBufferState::enqueue() {
    if (place_) misuse(Misuse::enqueue_twice, "enqueue: it was enqueued or committed before");
    const auto lock = runner_->lock();
    place_ = runner_->enqueue();
    status_ = MTL::CommandBufferStatusEnqueued;
}

void CommandBufferState::check_complete() {
    if (const auto misused = first_misuse_.get()) {
        if (dropped_encoder_) refuse_commit(Misuse::encoder_dropped, *misused);
        refuse_commit(Misuse::commit_after_misuse, "commit refused after an earlier misuse: " + *misused);
    }
    if (open_encoder_) {
        const std::string message =
            "command buffer" + quoted(label) + ": commit: " + open_encoder_->name() + " has not ended";
        first_misuse_.set(message);
        refuse_commit(Misuse::commit_open_encoder, message);
    }
}

void CommandBufferState::commit(MTL::CommandBuffer *self) {
    check_complete();
    auto lock = runner_->lock();
    if (status() >= MTL::CommandBufferStatusCommitted) {
        refuse(Misuse::commit_twice, "command buffer" + quoted(label) + ": commit: it was committed before");
    }
    if (!place_) place_ = runner_->enqueue();
    const bool startable = storage_->segments.size() == 1;
    const std::string failure = runner_->commit(place_, self, is_plain(), startable);
    status_ = MTL::CommandBufferStatusCommitted;  // now: those two may have no memory
    if (failure.empty()) runner_->start_ready(lock);
    lock.unlock();
    if (!failure.empty()) finish(self, MTL::CommandBufferErrorInternal, failure);
}

void CommandBufferState::commit_on_stream(Streams &streams, Stream stream) {
    check_complete();
    {
        const auto lock = runner_->lock();
        const std::string call = "command buffer" + quoted(label) + ": commit on a stream: ";
        if (status() >= MTL::CommandBufferStatusCommitted) {
            refuse(Misuse::commit_twice, call + "it was committed before");
        }
        if (place_ || !is_plain()) {
            refuse(Misuse::commit_twice, call + "it is enqueued, or has handlers or events");
        }
        status_ = MTL::CommandBufferStatusCommitted;
    }
    std::string fault;
    try {
        fault = streams.submit(storage_->segments[0].commands, stream);
    } catch (const std::exception &error) {
        fault = driver_failure(error);
    }
    set_ended(MTL::CommandBufferErrorPageFault, fault);
    storage_->clear();
    const auto lock = runner_->lock();
    runner_->spare.give(std::move(storage_));
    scheduled_ = done_ = true;
    runner_->give_up(nullptr);
}

// Handlers are the host's code, and the thread that waits may hold a lock that they take. A thread that waits
// for an event may have to wait until the host signals it, and the host cannot from inside a wait of its own.
bool CommandBufferState::is_plain() const {
    return scheduled_handlers_.empty() && completed_handlers_.empty() && storage_->segments.size() == 1;
}

// Ends the buffer as well: others may have been enqueued behind it, or wait for it.
void CommandBufferState::refuse_commit(Misuse misuse, const std::string &message) {
    const auto lock = runner_->lock();
    if (status() < MTL::CommandBufferStatusCommitted) {
        fault_ = message;
        error_code_ = MTL::CommandBufferErrorInternal;
        status_.store(MTL::CommandBufferStatusError, std::memory_order_release);
        scheduled_ = done_ = true;
        runner_->give_up(place_);
    }
    refuse(misuse, message);
}

void CommandBufferState::wait(bool completed) {
    const char *const call = completed ? "waitUntilCompleted" : "waitUntilScheduled";
    if (status() < MTL::CommandBufferStatusCommitted) {
        misuse(Misuse::wait_before_commit,
               std::string(call) + ": it was not committed, so this would wait for ever");
    }
    if (runner_->is_running_here()) {
        if (ended() || (!completed && status() >= MTL::CommandBufferStatusScheduled)) return;
        refuse(Misuse::wait_in_handler, "command buffer" + quoted(label) + ": " + call +
                                            ": this handler keeps the queue from running it");
    }
    auto lock = runner_->lock();
    runner_->wait(lock, completed ? done_ : scheduled_, completed);
}

std::string CommandBufferState::released_too_early() const {
    if (retains_) return {};
    for (const auto &allocation : storage_->allocations) {
        if (allocation->released.load(std::memory_order_relaxed)) {
            return allocation->name() +
                   " was released before the command buffer, which does not retain it, had run";
        }
    }
    return {};
}

std::string CommandBufferState::run_commands(const std::vector<Command> &commands) {
    if (commands.empty()) return {};
    const DefaultFloats floats;
    double seconds = -1;
    try {
        std::string fault;
        if (Line *const line = runner_->line()) {
            if (!flight_) flight_ = line->start(commands);
            fault = std::exchange(flight_, nullptr)->finish(&seconds);
        } else {
            fault = core_->driver->run_timed(commands, &seconds);
        }
        if (seconds >= 0) device_seconds_ += seconds;
        return fault;
    } catch (const std::exception &error) {
        return driver_failure(error);
    }
}

void CommandBufferState::start() noexcept {
    kernel_start = now();
    const auto &commands = storage_->segments[0].commands;
    try {
        if (!commands.empty() && released_too_early().empty()) flight_ = runner_->line()->start(commands);
    } catch (const std::exception &) {
        start_failed_ = true;  // those behind it may start, so it cannot start later
    }
    kernel_end = now();
    started_ = true;
}

// After a fault the rest is skipped, but signalled: nobody may wait for ever.
std::string CommandBufferState::execute() {
    std::string fault = released_too_early();
    if (fault.empty() && start_failed_) fault = "the driver failed to start it: out of memory";
    for (const Segment &segment : storage_->segments) {
        if (fault.empty() || flight_) {  // what has started must end, whatever is known of it
            const std::string ended = run_commands(segment.commands);
            if (fault.empty()) fault = ended;
        }
        if (!segment.event) continue;
        if (segment.signals) {
            segment.event->set(segment.value);
        } else if (fault.empty()) {
            segment.event->wait(segment.value);
        }
    }
    return fault;
}

void CommandBufferState::run(MTL::CommandBuffer *self) noexcept {
    if (!started_) kernel_start = now();
    status_ = MTL::CommandBufferStatusScheduled;
    for (const Block &handler : scheduled_handlers_) handler(self);
    {
        const auto lock = runner_->lock();
        scheduled_ = true;
        runner_->flags_changed();
    }
    if (started_) {
        gpu_start = std::max(kernel_start, runner_->device_free);  // when those in front of it had ended
    } else {
        kernel_end = gpu_start = now();
    }
    const std::string fault = execute();
    // The device's own clock, where it has one and the command buffer waits for nothing in between.
    gpu_end = device_seconds_ > 0 && storage_->segments.size() == 1 ? gpu_start + device_seconds_ : now();
    runner_->device_free = gpu_end;
    finish(self, MTL::CommandBufferErrorPageFault, fault);
}

void CommandBufferState::set_ended(MTL::CommandBufferError code, const std::string &fault) {
    if (!fault.empty()) {
        try {
            fault_ = "command buffer" + quoted(label) + ": " + fault;
        } catch (const std::bad_alloc &) {
            fault_ = kOutOfMemory;
        }
        error_code_ = code;
    }
    // The fields above are read only after this store.
    status_.store(fault.empty() ? MTL::CommandBufferStatusCompleted : MTL::CommandBufferStatusError,
                  std::memory_order_release);
}

void CommandBufferState::finish(MTL::CommandBuffer *self, MTL::CommandBufferError code,
                                const std::string &fault) {
    set_ended(code, fault);
    storage_->clear();
    for (const Block &handler : completed_handlers_) handler(self);
    scheduled_handlers_.clear();
    completed_handlers_.clear();
    const auto lock = runner_->lock();
    runner_->spare.give(std::move(storage_));
    scheduled_ = done_ = true;
    runner_->complete(self);
}

void CommandBufferState::lose_in_fork() {
    if (ended()) {  // its handlers were running; done_ is all that is missing
        done_ = true;
        return;
    }
    fault_ = "command buffer" + quoted(label) + ": " + kForked;
    error_code_ = MTL::CommandBufferErrorDeviceRemoved;
    scheduled_ = done_ = true;
    status_.store(MTL::CommandBufferStatusError, std::memory_order_release);
}

NS::Error *CommandBufferState::error() const {
    if (status() != MTL::CommandBufferStatusError) return nullptr;
    return ns_error(kCommandBufferErrorDomain, NS::Integer(error_code_), fault_);
}

}  // namespace qwisp::metal
