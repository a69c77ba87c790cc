// Streams of whoever else uses CUDA in this process.
#pragma once
#include <atomic>

#include "cuda_lane.h"
#include "metal_runtime/device/streams.h"

namespace qwisp::metal {

class CudaStreams final : public Streams {
  public:
    CudaStreams(std::shared_ptr<cuda::Gpu> gpu, const std::atomic<Launching> &launching)
        : gpu_(std::move(gpu)), launching_(launching) {}

    std::unique_ptr<Memory> wrap(uint64_t address, size_t length) override;
    std::string inspect(Stream stream, StreamState *state) override;
    std::string submit(const std::vector<Command> &commands, Stream stream) override;
    std::string mark(Stream stream, std::unique_ptr<Mark> *mark) override;
    std::string wait(Stream stream, Mark &mark) override;
    std::string finish(Stream stream) override;
    std::string finish_all() override;

  private:
    const std::shared_ptr<cuda::Gpu> gpu_;
    const std::atomic<Launching> &launching_;
};

}  // namespace qwisp::metal
