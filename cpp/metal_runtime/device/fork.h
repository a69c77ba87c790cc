// What must survive fork(): the child has only the forking thread, but every lock as it was.
#pragma once
#include <mutex>

namespace qwisp::metal {

// Something with locks. They come after the registry's and before label_mutex(): code that holds a label's
// lock must not take one of them.
class ForkListener {
  public:
    virtual void lock_for_fork() {}
    virtual void unlock_in_parent() {}
    // Unlocks as well. The other threads are gone: condition variables that they wait on must be made anew.
    virtual void recover_in_child() {}

  protected:
    ~ForkListener() = default;
};

// Makes fork() call a listener. The last member of the listener's final class: it must be there before the
// registration and after it.
class ForkRegistration {
  public:
    explicit ForkRegistration(ForkListener *listener);
    ~ForkRegistration();
    ForkRegistration(const ForkRegistration &) = delete;
    ForkRegistration &operator=(const ForkRegistration &) = delete;

  private:
    ForkListener *const listener_;
};

// A mutex that a forked child finds free. A static one must never be destroyed: threads outlive main.
class ForkSafeMutex final : public ForkListener {
  public:
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }
    void lock_for_fork() override { mutex_.lock(); }
    void unlock_in_parent() override { mutex_.unlock(); }
    void recover_in_child() override { mutex_.unlock(); }

  private:
    std::mutex mutex_;
    const ForkRegistration registration_{this};
};

}  // namespace qwisp::metal
