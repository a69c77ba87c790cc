// Orders that follow from a seed.
#pragma once
#include <cstdint>
#include <optional>

namespace qwisp::simt {

using Seed = std::optional<uint64_t>;  // none: natural order

// splitmix64
inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint32_t below(uint32_t n) { return static_cast<uint32_t>((mix(state_++) >> 32) * n >> 32); }

  private:
    uint64_t state_;
};

// A permutation of 0 .. count - 1 that needs no memory: a Feistel network, walked until it lands inside.
class Permutation {
  public:
    Permutation(uint64_t count, Seed seed) : count_(count), seed_(seed) {
        while (half_bits_ < 31 && uint64_t{1} << 2 * half_bits_ < count) half_bits_++;
    }
    uint64_t operator()(uint64_t i) const {
        if (!seed_) return i;
        do i = scramble(i);
        while (i >= count_);
        return i;
    }

  private:
    uint64_t scramble(uint64_t i) const {
        const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
        uint64_t left = i >> half_bits_, right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            const uint64_t mixed = left ^ (mix(*seed_ ^ mix(right * 4 + round)) & mask);
            left = right;
            right = mixed;
        }
        return left << half_bits_ | right;
    }

    uint64_t count_;
    Seed seed_;
    unsigned half_bits_ = 1;
};

}  // namespace qwisp::simt
