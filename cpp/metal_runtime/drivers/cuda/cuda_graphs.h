// CUDA graphs of command buffers, kept because making one costs more than running it.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu.h"

namespace qwisp::metal {

// Commands as the device takes them.
struct Flat {
    // Everything that the graph of these commands depends on. Equal keys: the graph can be used again.
    std::vector<uint64_t> key;
    size_t nodes = 0;
    uint64_t hash = 0xcbf29ce484222325;
    // A hash of what the nodes are without what they work on. Equal: one graph can be updated to the other.
    uint64_t structure = 0xcbf29ce484222325;
};

class CudaGraphs {
  public:
    explicit CudaGraphs(std::shared_ptr<cuda::Gpu> gpu) : gpu_(std::move(gpu)) {}

    // All calls with the context current. The graph of equal commands, or null.
    cuda::GraphExecHandle find(const Flat &flat);
    // The graph of what `encode` puts onto the stream.
    std::string make(Flat flat, cuda::StreamHandle stream, const std::function<std::string()> &encode,
                     cuda::GraphExecHandle &exec);
    void clear();

  private:
    struct Graph {
        Flat flat;
        cuda::GraphExecHandle exec;
    };
    using Graphs = std::list<Graph>;  // the last used first

    std::string capture(cuda::StreamHandle stream, const std::function<std::string()> &encode,
                        cuda::GraphHandle &graph);
    cuda::GraphExecHandle take_alike(const Flat &flat);
    cuda::GraphExecHandle take(Graphs::iterator graph);

    const std::shared_ptr<cuda::Gpu> gpu_;
    Graphs graphs_;
    std::unordered_map<uint64_t, Graphs::iterator> by_hash_;
    size_t nodes_ = 0;
};

}  // namespace qwisp::metal
