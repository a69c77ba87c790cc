#include "cuda_streams.h"

#include "cuda_memory.h"

namespace qwisp::metal {
namespace {

using cuda::api;
using cuda::kSuccess;

constexpr uint64_t kOfCapture = uint64_t(1) << 63;  // captures and streams are numbered apart

cuda::StreamHandle handle(Stream stream) { return reinterpret_cast<cuda::StreamHandle>(stream); }

class CudaMark final : public Mark {
  public:
    CudaMark(std::shared_ptr<cuda::Gpu> gpu, cuda::EventHandle event) : gpu_(std::move(gpu)), event_(event) {}
    ~CudaMark() override {
        const cuda::Current current(*gpu_);
        if (current) api()->event_destroy(event_);
    }

    bool passed() override {
        const cuda::Current current(*gpu_);
        return !current || api()->event_query(event_) != cuda::kNotReady;
    }
    void wait() override {
        const cuda::Current current(*gpu_);
        if (current) api()->event_wait(event_);
    }
    cuda::EventHandle event() const { return event_; }

  private:
    const std::shared_ptr<cuda::Gpu> gpu_;
    const cuda::EventHandle event_;
};

}  // namespace

std::unique_ptr<Memory> CudaStreams::wrap(uint64_t address, size_t length) {
    return std::make_unique<CudaMemory>(gpu_, address, length);
}

std::string CudaStreams::inspect(Stream stream, StreamState *state) {
    const cuda::Current current(*gpu_);
    if (!current) return current.error();
    unsigned long long id = 0;
    int status = cuda::kCaptureNone;
    std::string error =
        gpu_->check("asking whether a stream is capturing",
                    api()->stream_capture(handle(stream), &status, &id, nullptr, nullptr, nullptr));
    const bool capturing = status != cuda::kCaptureNone;
    if (error.empty() && !capturing) {  // a capturing stream refuses to tell its own
        error = gpu_->check("asking for a stream's id", api()->stream_id(handle(stream), &id));
    }
    *state = {capturing ? id | kOfCapture : id, capturing};
    return error;
}

std::string CudaStreams::submit(const std::vector<Command> &commands, Stream stream) {
    const cuda::Current current(*gpu_);
    if (!current) return current.error();
    return CudaLane::submit(*gpu_, commands, launching_, handle(stream));
}

std::string CudaStreams::mark(Stream stream, std::unique_ptr<Mark> *mark) {
    const cuda::Current current(*gpu_);
    if (!current) return current.error();
    cuda::EventHandle event = nullptr;
    std::string error = gpu_->check("making an event", api()->event_create(&event, cuda::kEventNoTiming));
    if (!error.empty()) return error;
    auto made = std::make_unique<CudaMark>(gpu_, event);
    error = gpu_->check("recording an event", api()->event_record(event, handle(stream)));
    if (error.empty()) *mark = std::move(made);
    return error;
}

std::string CudaStreams::wait(Stream stream, Mark &mark) {
    const cuda::Current current(*gpu_);
    if (!current) return current.error();
    return gpu_->check("waiting for an event",
                       api()->stream_await(handle(stream), static_cast<CudaMark &>(mark).event(), 0));
}

std::string CudaStreams::finish(Stream stream) {
    const cuda::Current current(*gpu_);
    if (!current) return current.error();
    return gpu_->check("waiting for a stream", api()->stream_wait(handle(stream)));
}

std::string CudaStreams::finish_all() {
    const cuda::Current current(*gpu_);
    if (!current) return current.error();
    return gpu_->check("waiting for the device", api()->context_wait());
}

}  // namespace qwisp::metal
