#include "metal_runtime/device/fork.h"

#include <pthread.h>

#include <mutex>
#include <vector>

#include "metal_runtime/device/label.h"

namespace qwisp::metal {
namespace {

struct Registry {
    std::mutex mutex;
    std::vector<ForkListener *> listeners;
};

Registry &registry();

void before_fork() {
    registry().mutex.lock();
    for (ForkListener *listener : registry().listeners) listener->lock_for_fork();
    label_mutex().lock();
}
void after_fork_in_parent() {
    label_mutex().unlock();
    for (ForkListener *listener : registry().listeners) listener->unlock_in_parent();
    registry().mutex.unlock();
}
void after_fork_in_child() {
    label_mutex().unlock();
    for (ForkListener *listener : registry().listeners) listener->recover_in_child();
    registry().mutex.unlock();
}

Registry &registry() {
    static Registry *const made = [] {
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        return new Registry;
    }();
    return *made;
}

}  // namespace

ForkRegistration::ForkRegistration(ForkListener *listener) : listener_(listener) {
    const std::lock_guard lock(registry().mutex);
    registry().listeners.push_back(listener_);
}

ForkRegistration::~ForkRegistration() {
    const std::lock_guard lock(registry().mutex);
    std::erase(registry().listeners, listener_);
}

}  // namespace qwisp::metal
