// A stream and the graphs that were made for it. One command buffer at a time.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_module.h"
#include "gpu.h"
#include "metal_runtime/device/driver.h"

namespace qwisp::metal {

// How dispatches reach the device: one by one; as one CUDA graph; as one graph in which a kernel may start
// before the one before it has ended, where both its text and the buffers allow that.
enum class Launching { stream, graph, dependent };

// Commands as the device takes them.
struct Flat {
    // Everything that the graph of these commands depends on. Equal keys: the graph can be used again.
    std::vector<uint64_t> key;
    size_t nodes = 0;
    uint64_t hash = 0;
};
std::string flatten(const std::vector<Command> &commands, Launching launching, Flat &flat);

class CudaLane {
  public:
    explicit CudaLane(std::shared_ptr<cuda::Gpu> gpu) : gpu_(std::move(gpu)) {}

    // Blocks until the commands have run. `seconds`: what they took on the device, where it is known.
    std::string run(const std::vector<Command> &commands, Launching launching, double *seconds);
    // Only puts the commands on a stream of the caller's.
    static std::string submit(cuda::Gpu &gpu, const std::vector<Command> &commands, Launching launching,
                              cuda::StreamHandle stream);

  private:
    struct Graph {
        Flat flat;
        cuda::GraphExecHandle exec;
    };
    using Graphs = std::list<Graph>;  // the last used first

    std::string open();
    std::string launch(const std::vector<Command> &commands, Launching launching);
    Graphs::iterator find(const Flat &flat);
    std::string make_graph(const std::vector<Command> &commands, Launching launching, Flat flat);
    void make_room(size_t nodes);

    const std::shared_ptr<cuda::Gpu> gpu_;
    cuda::StreamHandle stream_ = nullptr;
    cuda::EventHandle start_ = nullptr, end_ = nullptr;
    Graphs graphs_;
    std::multimap<uint64_t, Graphs::iterator> by_hash_;
    size_t nodes_ = 0;
    std::vector<uint64_t> seen_;  // hashes of short command buffers that ran once, a ring
    size_t next_seen_ = 0;
};

}  // namespace qwisp::metal
