// A dispatch on a device that is out to get the kernel: many threadgroups are under way at once, a thread may
// be interrupted at each access that others may notice, memory is weak (weak_memory.h), and whoever makes the
// choices (choices.h) decides what happens.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "threadgroup.h"
#include "weak_memory.h"

namespace qwisp::simt {

class Adversary {
  public:
    explicit Adversary(Launch &launch);
    ~Adversary();
    Adversary(const Adversary &) = delete;
    Adversary &operator=(const Adversary &) = delete;

    // Returns an empty string, or the message of the fault that ended the dispatch.
    std::string run();

  private:
    void start(uint64_t linear);
    static void keep(std::unique_ptr<Threadgroup> group) noexcept;  // its stacks, for the next dispatch

    Launch &launch_;
    WeakMemory memory_;
    uint32_t watched_ = 0;  // slots of memory that the dispatch may write: nobody can notice another's reads
    std::vector<std::unique_ptr<Threadgroup>> under_way_;  // the one that has waited longest first
};

}  // namespace qwisp::simt
