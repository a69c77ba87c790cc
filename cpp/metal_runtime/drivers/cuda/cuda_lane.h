// How command buffers reach the device.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cuda_graphs.h"
#include "cuda_module.h"
#include "gpu.h"
#include "metal_runtime/device/driver.h"

namespace qwisp::metal {

// How dispatches reach the device: one by one; as one CUDA graph; as one graph in which a kernel may start
// before the one before it has ended, where both its text and the buffers allow that.
enum class Launching { stream, graph, dependent };

Flat flatten(std::span<const Command> dispatches, Launching launching);

// A line of the device's: a stream of its own, and the graphs that were made for it.
class CudaLane final : public Line {
  public:
    CudaLane(std::shared_ptr<cuda::Gpu> gpu, std::shared_ptr<const std::atomic<Launching>> launching);
    ~CudaLane() override;

    std::unique_ptr<Flight> start(const std::vector<Command> &commands) override;
    // Only puts the commands on a stream of the caller's.
    static std::string submit(cuda::Gpu &gpu, std::span<const Command> commands, Launching launching,
                              cuda::StreamHandle stream);

  private:
    class Passage;
    struct Events {
        cuda::EventHandle start = nullptr, end = nullptr;
    };

    std::string open(Events &events);
    std::string launch(std::span<const Command> commands);
    std::string launch_graph(std::span<const Command> dispatches, Launching launching);

    const std::shared_ptr<cuda::Gpu> gpu_;
    const std::shared_ptr<const std::atomic<Launching>> launching_;
    cuda::StreamHandle stream_ = nullptr;
    CudaGraphs graphs_;
    std::vector<uint64_t> seen_;  // hashes of short command buffers that ran once, a ring
    size_t next_seen_ = 0;
    std::atomic<int> flying_ = 0;
    std::mutex mutex_;  // of spare_: command buffers end on other threads than they start on
    std::vector<Events> spare_;
};

}  // namespace qwisp::metal
