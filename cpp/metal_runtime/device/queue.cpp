#include "metal_runtime/device/queue.h"

#include <new>
#include <optional>
#include <system_error>

#include "metal_runtime/device/background_thread.h"
#include "metal_runtime/device/command_buffer.h"

namespace qwisp::metal {
namespace {

// A nap bounds how late a command buffer runs that was expected to be waited for and was not. Without a
// commit for as long as kNaps of them, the thread sleeps until it is woken.
constexpr std::chrono::milliseconds kNap(1);
constexpr int kNaps = 100;

MTL::CommandBuffer *new_command_buffer(MTL::CommandQueue *queue, bool retains) {
    Queue &shared = *objc::payload<QueueState>(queue).shared;
    shared.take_slot();
    MTL::CommandBuffer *buffer = nullptr;
    try {
        buffer = command_buffer_class().create<MTL::CommandBuffer>(queue, retains);
    } catch (...) {
        const auto lock = shared.lock();
        shared.give_up(nullptr);
        throw;
    }
    return buffer->autorelease();
}

}  // namespace

void Queue::take_slot() {
    std::unique_lock lock(mutex_);
    while (existing_ >= limit_) {
        const std::string full = "commandBuffer: the queue" + quoted(label) +
                                 " is full: " + std::to_string(limit_) +
                                 " command buffers have not completed";
        if (is_running_here())
            refuse(Misuse::wait_in_handler, full + ", and this handler keeps them from it");
        if (committed_ > 0) {
            await_change(lock);
        } else {  // the system clock, because thread sanitizers know that wait only
            const auto until = std::chrono::system_clock::now() + stall_limit;
            const bool in_time =
                changes_.wait_until(lock, until, [this] { return committed_ > 0 || existing_ < limit_; });
            if (!in_time) refuse(Misuse::queue_stalled, full + ", and none of them is committed");
        }
    }
    ++existing_;
}

std::shared_ptr<Queue::Place> Queue::enqueue() { return places_.emplace_back(std::make_shared<Place>()); }

std::string Queue::commit(const std::shared_ptr<Place> &place, MTL::CommandBuffer *buffer, bool plain,
                          bool startable) {
    try {
        if (!has_thread_) start_thread();
    } catch (const std::system_error &error) {
        std::string why = std::string("the queue's thread cannot be started: ") + error.what();
        ++committed_;
        place->abandoned = true;
        return why;
    }
    ++committed_;
    place->buffer = NS::RetainPtr(buffer);
    place->plain = plain;
    place->startable = startable;
    naps_ = 0;
    // More than the one that may be waited for next, and not on the device anyway.
    const bool several = committed_ > 1 && !running_ && !(line_ && startable);
    if (!plain || !waited_for_ || !napping_ || several) arrivals_.notify_one();
    changes_.notify_all();
    return {};
}

void Queue::complete(MTL::CommandBuffer *buffer) {
    if (running_ == buffer) {
        running_ = nullptr;
        runner_ = std::thread::id();
    }
    --committed_;
    --existing_;
    const Place *const behind = next();
    if (behind && !(behind->plain && napping_)) arrivals_.notify_one();
    changes_.notify_all();
}

void Queue::give_up(const std::shared_ptr<Place> &place) {
    if (place) place->abandoned = true;
    --existing_;
    arrivals_.notify_one();
    changes_.notify_all();
}

void Queue::close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    arrivals_.notify_one();
}

void Queue::start_thread() {
    start_background_thread([self = shared_from_this()] { self->work(); });
    has_thread_ = true;
}

Queue::Place *Queue::next() {
    if (running_) return nullptr;
    while (!places_.empty() && places_.front()->abandoned) places_.pop_front();
    if (places_.empty() || !places_.front()->buffer || places_.front()->start == Place::starting)
        return nullptr;
    return places_.front().get();
}

// All in front of it were started and have not been run, or are being run, or have ended.
std::shared_ptr<Queue::Place> Queue::next_to_start() const {
    if (!line_ || starting_ || (running_ && !running_early_)) return nullptr;
    for (const auto &place : places_) {
        if (place->abandoned || place->start == Place::started) continue;
        return place->buffer && place->startable ? place : nullptr;
    }
    return nullptr;
}

void Queue::start_ready(std::unique_lock<std::mutex> &lock) {
    while (const std::shared_ptr<Place> place = next_to_start()) {
        place->start = Place::starting;  // keeps it, and the buffer, where they are
        starting_ = true;
        lock.unlock();
        objc::payload<CommandBufferState>(place->buffer.get()).start();
        lock.lock();
        starting_ = false;
        place->start = Place::started;
        const Place *const first = next();
        if (first == place.get() && !(first->plain && napping_)) arrivals_.notify_one();
        changes_.notify_all();
    }
}

void Queue::run_next(std::unique_lock<std::mutex> &lock) {
    if (next_to_start()) return start_ready(lock);  // and then the caller looks again
    std::optional<PoolScope> pool(std::in_place);   // first: without memory for it nothing has changed
    running_early_ = places_.front()->start == Place::started;
    NS::SharedPtr<MTL::CommandBuffer> buffer = std::move(places_.front()->buffer);
    places_.pop_front();
    running_ = buffer.get();
    runner_ = std::this_thread::get_id();
    lock.unlock();
    objc::payload<CommandBufferState>(buffer.get()).run(buffer.get());
    buffer.reset();
    pool.reset();
    lock.lock();
}

void Queue::await_change(std::unique_lock<std::mutex> &lock) {
    if (!running_) arrivals_.notify_one();  // this thread sleeps now, so the other one must not
    changes_.wait(lock);
}

void Queue::wait(std::unique_lock<std::mutex> &lock, const bool &flag, bool help) {
    while (!flag) {
        const Place *const first = help ? next() : nullptr;
        if (first && first->plain) {
            waited_for_ = true;
            run_next(lock);
        } else {
            await_change(lock);
        }
    }
}

void Queue::work() {
    thread_id_ = std::this_thread::get_id();
    std::unique_lock lock(mutex_);
    for (;;) {
        if (const Place *const first = next()) {
            if (first->plain) waited_for_ = false;
            try {
                run_next(lock);
            } catch (const std::bad_alloc &) {  // later, perhaps
                arrivals_.wait_for(lock, kNap);
            }
        } else if (places_.empty() && closed_) {
            return;
        } else {
            rest(lock);
        }
    }
}

void Queue::rest(std::unique_lock<std::mutex> &lock) {
    napping_ = waited_for_ && naps_ < kNaps;
    if (napping_) {
        ++naps_;
        arrivals_.wait_for(lock, kNap);
    } else {
        arrivals_.wait(lock);
    }
    napping_ = false;
}

void Queue::recover_in_child() {
    new (&arrivals_) std::condition_variable;  // not destroyed first: that waits for threads that are gone
    new (&changes_) std::condition_variable;
    napping_ = starting_ = false;
    const auto here = std::this_thread::get_id();
    if (thread_id_.load() != here) {
        has_thread_ = false;
        thread_id_ = std::thread::id();
    }
    const auto lose = [this](MTL::CommandBuffer *buffer) {
        objc::payload<CommandBufferState>(buffer).lose_in_fork();
        --committed_;
        --existing_;
    };
    if (running_ && runner_.load() != here) {  // else the fork comes from its handler, which goes on here
        lose(running_);
        running_ = nullptr;
        runner_ = std::thread::id();
    }
    for (const auto &place : places_) {
        if (!place->buffer) continue;
        lose(place->buffer.get());
        place->abandoned = true;
        place->buffer.detach();  // a release could run the host's code, here in the middle of fork()
    }
    mutex_.unlock();
}

QueueState::QueueState(MTL::Device *device_, size_t limit)
    : device(NS::RetainPtr(device_)),
      shared(std::make_shared<Queue>(limit, core_of(device_)->driver->open_line())) {}

const objc::PayloadClass<QueueState> &queue_class() {
    static const auto cls =
        objc::PayloadClass<QueueState>("QwispCommandQueue")
            .method("device", [](const QueueState &self) { return self.device.get(); })
            .method("label", [](const QueueState &self) { return ns_string(self.shared->label.get()); })
            .method("setLabel:",
                    [](QueueState &self, NS::String *label) { self.shared->label.set(text_of(label)); })
            .method(
                "commandBuffer",
                [](id self) { return new_command_buffer(reinterpret_cast<MTL::CommandQueue *>(self), true); })
            .method("commandBufferWithUnretainedReferences",
                    [](id self) {
                        return new_command_buffer(reinterpret_cast<MTL::CommandQueue *>(self), false);
                    })
            .method("commandBufferWithDescriptor:",
                    [](id self, MTL::CommandBufferDescriptor *descriptor) {
                        if (!descriptor)
                            refuse(Misuse::null_argument, "commandBuffer: the descriptor is null");
                        return new_command_buffer(reinterpret_cast<MTL::CommandQueue *>(self),
                                                  descriptor->retainedReferences());
                    })
            .method("insertDebugCaptureBoundary", [](QueueState &) {})
            .registered();
    return cls;
}

MTL::CommandQueue *new_queue(MTL::Device *device, size_t max_command_buffers) {
    if (max_command_buffers == 0) {
        refuse(Misuse::queue_length, "newCommandQueue: maxCommandBufferCount 0, but it must be at least 1");
    }
    return queue_class().create<MTL::CommandQueue>(device, max_command_buffers);
}

}  // namespace qwisp::metal
