// What the executor may choose freely when it is the adversary of a kernel: who makes the choices.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "schedule.h"

namespace qwisp::simt {

enum class Choice : uint32_t {
    preempt,  // after an access to device memory that others may see: 0 goes on, 1 lets others run
    leave,    // 0 goes on within the threadgroup, 1 with another threadgroup
    crowd,    // 0: as many threadgroups at once as can be; n: the nth part of them
    group,    // which threadgroup goes on
    thread,   // which thread of it
    stale,    // what an atomic load finds: 0 the newest value, else one so much older
    hold,     // 0 stores at once, 1 keeps an atomic store from other threads for now
    settle,   // 1: one of the stores that are kept back becomes visible
    which,    // which of them
};
inline constexpr size_t kChoiceKinds = 9;

class Choices {
  public:
    virtual ~Choices() = default;
    // From 0 to n - 1. 0 is what a device without any malice would do.
    virtual uint32_t of(Choice kind, uint32_t n) = 0;
    virtual Seed seed() const = 0;
    virtual std::string name() const = 0;  // for messages: how to have the same choices again
};

// Random ones. How often each kind departs from 0 also follows from the seed.
class SeededChoices final : public Choices {
  public:
    explicit SeededChoices(uint64_t seed);
    uint32_t of(Choice kind, uint32_t n) override;
    Seed seed() const override { return seed_; }
    std::string name() const override { return "seed " + std::to_string(seed_); }

  private:
    uint64_t seed_;
    Random random_;
    static constexpr uint32_t kAllAlike = 257;
    std::array<uint32_t, kChoiceKinds> chances_;  // of 256
};

// All of those with at most `bound` departures from 0, one after another (delay-bounded exploration: Emmi,
// Qadeer, Rakamaric 2011), for kernels that are small enough:
//     ExploredChoices choices(2);
//     do run(choices); while (choices.next());
class ExploredChoices final : public Choices {
  public:
    explicit ExploredChoices(uint32_t bound) : bound_(bound) {}
    bool next();
    uint32_t of(Choice kind, uint32_t n) override;
    Seed seed() const override { return {}; }
    std::string name() const override;  // "choices 12:1 40:2": departures and their places

  private:
    static constexpr uint32_t kMostOptions = 4;
    struct Made {
        uint32_t choice, options;
    };
    std::vector<Made> made_;
    size_t at_ = 0;
    uint32_t bound_, departures_ = 0;  // departures: of made_
};

}  // namespace qwisp::simt
