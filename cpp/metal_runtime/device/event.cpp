#include "metal_runtime/device/event.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>

namespace qwisp::metal {
namespace {

struct Hub final : ForkListener {
    std::mutex mutex;
    std::condition_variable changed;

    void lock_for_fork() override { mutex.lock(); }
    void unlock_in_parent() override { mutex.unlock(); }
    void recover_in_child() override {
        new (&changed) std::condition_variable;  // not destroyed first: that waits for threads that are gone
        mutex.unlock();
    }

    const ForkRegistration registration{this};
};

Hub &hub() {
    static auto *const made = new Hub;
    return *made;
}

// Made when the program loads: a fork in the middle of a first use would leave the child without it.
[[maybe_unused]] const Hub &made_at_load = hub();

}  // namespace

uint64_t EventValue::get() const {
    const std::lock_guard lock(hub().mutex);
    return value_;
}

void EventValue::set(uint64_t value) {
    const std::lock_guard lock(hub().mutex);
    value_ = value;
    hub().changed.notify_all();
}

void EventValue::wait(uint64_t value) const {
    std::unique_lock lock(hub().mutex);
    hub().changed.wait(lock, [&] { return value_ >= value; });
}

bool EventValue::wait_for(uint64_t value, uint64_t milliseconds) const {
    std::unique_lock lock(hub().mutex);
    // Some callers pass UINT64_MAX for ever; a year does not overflow the clock.
    const auto most = std::chrono::milliseconds(std::chrono::hours(24 * 365));
    const auto patience = std::min<uint64_t>(milliseconds, uint64_t(most.count()));
    const auto until = std::chrono::system_clock::now() + std::chrono::milliseconds(patience);
    return hub().changed.wait_until(lock, until, [&] { return value_ >= value; });
}

const objc::PayloadClass<EventState> &event_class() {
    static const auto cls =
        objc::PayloadClass<EventState>("QwispSharedEvent")
            .method("device", [](const EventState &self) { return self.device.get(); })
            .method("label", [](const EventState &self) { return ns_string(self.label.get()); })
            .method("setLabel:", [](EventState &self, NS::String *label) { self.label.set(text_of(label)); })
            .method("signaledValue", [](const EventState &self) { return self.value->get(); })
            .method("setSignaledValue:", [](EventState &self, uint64_t value) { self.value->set(value); })
            .method("waitUntilSignaledValue:timeoutMS:",
                    [](const EventState &self, uint64_t value, uint64_t milliseconds) {
                        return self.value->wait_for(value, milliseconds);
                    })
            .registered();
    return cls;
}

}  // namespace qwisp::metal
