// A stack and where to go on with it: the threads of a threadgroup run on fibres of one OS thread.
#pragma once
#include <cstddef>

namespace qwisp::simt {

class Fibre {
  public:
    // Stands for the stack that the calling OS thread is on when it first leaves it.
    Fibre() = default;
    // entry(argument) runs at the first switch and must never return. Throws std::system_error. `colour`
    // spreads the stacks over cache sets.
    Fibre(void (*entry)(void *), void *argument, size_t colour);
    ~Fibre();
    Fibre(const Fibre &) = delete;
    Fibre &operator=(const Fibre &) = delete;

    // Leaves this fibre, which must be the running one, for `to`.
    void switch_to(Fibre &to);
    // The first call in an entry.
    void started();

  private:
    void arrived();

    void *stack_pointer_ = nullptr;
    void *mapping_ = nullptr;
    Fibre *previous_ = nullptr;
    // For AddressSanitizer.
    const void *stack_bottom_ = nullptr;
    size_t stack_size_ = 0;
    [[maybe_unused]] void *fake_stack_ = nullptr;
};

}  // namespace qwisp::simt
