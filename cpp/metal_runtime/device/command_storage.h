// The memory that command buffers encode into. A queue hands it on from one to the next: fresh memory costs
// page faults, which are dearer than the encoding.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "metal_runtime/device/buffer.h"
#include "metal_runtime/device/event.h"
#include "metal_runtime/device/pipeline.h"

namespace qwisp::metal {

// Bytes that live until clear().
class Arena {
  public:
    void *allocate(size_t length) {  // aligned for any type
        length = (length + kAlignment - 1) / kAlignment * kAlignment;
        if (length > left_) [[unlikely]]
            add_chunk(length);
        std::byte *const first = next_;
        next_ += length;
        left_ -= length;
        return first;
    }

    // Keeps the last chunk, the largest.
    void clear() {
        if (chunks_.empty()) return;
        chunks_.erase(chunks_.begin(), chunks_.end() - 1);
        next_ = chunks_.back().get();
        left_ = size_;
    }

    size_t kept() const { return size_; }

  private:
    static constexpr size_t kAlignment = alignof(std::max_align_t), kFirst = 4096;

    void add_chunk(size_t least) {
        size_ = std::max(least, chunks_.empty() ? kFirst : 2 * size_);
        chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size_));
        next_ = chunks_.back().get();
        left_ = size_;
    }

    std::vector<std::unique_ptr<std::byte[]>> chunks_;
    std::byte *next_ = nullptr;
    size_t left_ = 0, size_ = 0;  // of the last chunk
};

struct Segment {
    std::vector<Command> commands;
    std::shared_ptr<EventValue> event;  // after them
    uint64_t value = 0;
    bool signals = false;
};

struct CommandStorage {
    Arena arena;
    std::vector<Segment> segments = std::vector<Segment>(1);
    std::vector<std::shared_ptr<Allocation>> allocations;
    std::vector<std::shared_ptr<Pipeline>> pipelines;

    void clear() {
        segments.resize(1);
        segments[0].commands.clear();
        segments[0].event.reset();
        allocations.clear();
        pipelines.clear();
        arena.clear();
    }
    size_t bytes() const { return arena.kept() + segments[0].commands.capacity() * sizeof(Command); }
};

// A few of them; the largest are not kept.
class SpareStorage {
  public:
    std::unique_ptr<CommandStorage> take() {
        if (count_ == 0) return std::make_unique<CommandStorage>();
        return std::move(spare_[--count_]);
    }
    void give(std::unique_ptr<CommandStorage> cleared) noexcept {
        if (cleared && count_ < kMost && cleared->bytes() <= kMostBytes)
            spare_[count_++] = std::move(cleared);
    }

  private:
    static constexpr size_t kMost = 4, kMostBytes = 1 << 20;

    std::array<std::unique_ptr<CommandStorage>, kMost> spare_;
    size_t count_ = 0;
};

}  // namespace qwisp::metal
