// The least that a route can take: reading the weights, with nothing done to them.
#pragma once
#include <cstddef>
#include <memory>

namespace qwisp::metal::vector {

// `sets` weights of `bytes` each, in memory like that of packed gates.
class ReadFloor {
  public:
    // Throws std::invalid_argument: bytes is no multiple of 64. std::bad_alloc.
    ReadFloor(size_t sets, size_t bytes);

    // Reads all of them in turn, each shared out among the team's threads.
    void run() const;

  private:
    size_t sets_, bytes_;
    std::shared_ptr<std::byte> memory_;
};

}  // namespace qwisp::metal::vector
