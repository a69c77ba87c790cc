// Results in the device's memory, and the memory that such results come from and go back to.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "metal_runtime/device/fork.h"
#include "metal_runtime/device/streams.h"
#include "route/buffer.h"
#include "route/context.h"

namespace qwisp {

// Throws DeviceError for a failure in words; none is empty.
void throw_if(const std::string &failure);

class StreamPool;

// Of one call. The stream that wrote them, and others that they were handed to, may still be at work on them.
// Safe to use from several threads.
class StreamResults {
  public:
    StreamResults(std::shared_ptr<Context> context, uint32_t rows, uint32_t experts, uint32_t top_k,
                  bool with_logits);

    uint32_t rows() const { return rows_; }  // room for
    const BufferPtr &inds() const { return inds_; }
    const BufferPtr &scores() const { return scores_; }
    const BufferPtr &logits() const { return logits_; }  // null if not wanted
    const std::shared_ptr<Context> &context() const { return context_; }

    // What `other` is given from now on sees the results, and their memory is used again only after what it
    // was given while they lived. Throws std::invalid_argument if a capture stands in between, DeviceError.
    void hand_to(metal::Stream other);
    // Blocks until the results are there: those of a captured call as the last replay left them. Throws
    // std::runtime_error while their stream is capturing, DeviceError.
    void finish();

  private:
    friend class StreamPool;

    std::shared_ptr<Context> context_;
    metal::Streams &streams_;
    uint32_t rows_;
    BufferPtr inds_, scores_, logits_;
    std::mutex mutex_;
    metal::Stream stream_ = 0;  // of the call
    // At the call. A handle may come to mean another stream: a thread's own, or one made after this one's
    // end.
    metal::StreamState state_;
    struct Handed {
        metal::Stream stream;
        uint64_t id;
    };
    std::vector<Handed> handed_;
    std::vector<std::unique_ptr<metal::Mark>> marks_;  // what whoever uses the memory next must wait for
};

// Memory for results, used again in the order of the stream that it was used on.
class StreamPool : public std::enable_shared_from_this<StreamPool> {
  public:
    explicit StreamPool(std::shared_ptr<Context> context) : context_(std::move(context)) {}

    // Goes back to the pool when nobody holds it any more, unless the stream is capturing: then the memory is
    // of no other call ever. Throws AllocationError, DeviceError.
    std::shared_ptr<StreamResults> take(metal::Stream stream, const metal::StreamState &state, uint32_t rows,
                                        uint32_t experts, uint32_t top_k, bool with_logits);

  private:
    std::unique_ptr<StreamResults> find(uint64_t stream, uint32_t rows, bool with_logits);
    void give(std::unique_ptr<StreamResults> results) noexcept;

    const std::shared_ptr<Context> context_;
    metal::ForkSafeMutex mutex_;
    std::vector<std::unique_ptr<StreamResults>> free_;    // the longest free first
    std::vector<std::unique_ptr<StreamResults>> parked_;  // cannot be told when they are no longer in use
};

}  // namespace qwisp
