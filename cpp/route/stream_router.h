// Routes rows that are in the device's memory already, in the order of a stream of the caller's: nothing is
// copied to or from the host, and no call waits for the device.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "route/router.h"
#include "route/stream_results.h"

namespace qwisp {

struct StreamBias {
    BufferPtr resident;  // int32 [experts]
    float eps = 0;
};
struct StreamInput {
    int64_t rows = 0;
    uint64_t x = 0;  // address of float16 [rows, hidden]
    std::optional<StreamBias> bias;
    bool logits = false;
    metal::Stream stream = 0;
    // What keeps x alive; null if whatever frees x does so in the order of the stream.
    std::shared_ptr<void> keep = {};
};

// Working memory is one stream's at a time. A call on a stream that is capturing a graph gets working memory
// and results of its own, which live as long as this, because the graph may be replayed at any time.
//
// Safe to use from several threads.
class StreamRouter {
  public:
    // The router's device must have streams.
    explicit StreamRouter(std::shared_ptr<Router> router);
    ~StreamRouter();  // finishes
    void finish();    // waits for what it keeps alive, and for all that it has put on streams

    // Throws std::invalid_argument, AllocationError, DeviceError.
    std::shared_ptr<StreamResults> route(const StreamInput &input);
    // What was kept alive for calls that the device has done meanwhile: the caller's to drop.
    std::vector<std::shared_ptr<void>> done();

    StreamRouter(const StreamRouter &) = delete;
    StreamRouter &operator=(const StreamRouter &) = delete;

  private:
    struct Work {  // of one stream
        uint64_t stream;
        std::shared_ptr<RouteScratch> scratch;
        BufferPtr resident;  // of the last call with a bias
    };
    struct Kept {
        std::unique_ptr<metal::Mark> until;
        std::shared_ptr<void> what;
    };

    Work &work_of(const StreamInput &input, const metal::StreamState &state);
    std::shared_ptr<RouteScratch> new_scratch(int64_t rows) const;
    void keep(metal::Stream stream, std::shared_ptr<void> what);

    const std::shared_ptr<Router> router_;
    const std::shared_ptr<Context> context_;
    metal::Streams &streams_;
    const std::shared_ptr<StreamPool> pool_;
    std::mutex mutex_;  // held until a call's commands are on their stream: its order is that of the calls
    std::vector<Work> works_;  // the longest unused first
    std::vector<Kept> kept_;
    std::vector<std::shared_ptr<void>> captured_;
};

}  // namespace qwisp
