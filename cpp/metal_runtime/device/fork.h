// What must survive fork(): the child has only the forking thread, but every lock as it was.
#pragma once

namespace qwisp::metal {

// Something with locks, from construction to destruction. Its locks come after the registry's and before
// label_mutex(): code that holds a label's lock must not take one of them.
class ForkListener {
  public:
    ForkListener();
    ForkListener(const ForkListener &) = delete;
    ForkListener &operator=(const ForkListener &) = delete;

    virtual void lock_for_fork() {}
    virtual void unlock_in_parent() {}
    // Unlocks as well. The other threads are gone: condition variables that they wait on must be made anew.
    virtual void recover_in_child() {}

  protected:
    virtual ~ForkListener();
};

}  // namespace qwisp::metal
