#include "cuda_graphs.h"

#include <iterator>

namespace qwisp::metal {
namespace {

using cuda::api;
using cuda::kSuccess;

constexpr size_t kMostNodes = size_t{1} << 17;  // of all graphs that are kept
constexpr size_t kMostAlike = 64;  // graphs of one structure: from there on the oldest is updated

}  // namespace

cuda::GraphExecHandle CudaGraphs::find(const Flat &flat) {
    const auto found = by_hash_.find(flat.hash);
    if (found == by_hash_.end() || found->second->flat.key != flat.key) return nullptr;
    graphs_.splice(graphs_.begin(), graphs_, found->second);
    return found->second->exec;
}

std::string CudaGraphs::capture(cuda::StreamHandle stream, const std::function<std::string()> &encode,
                                cuda::GraphHandle &graph) {
    std::string error =
        gpu_->check("beginning a capture", api()->begin_capture(stream, cuda::kCaptureRelaxed));
    if (!error.empty()) return error;
    try {
        error = encode();
    } catch (...) {  // else the stream would capture for ever
        if (api()->end_capture(stream, &graph) == kSuccess && graph) api()->graph_destroy(graph);
        throw;
    }
    const std::string ended = gpu_->check("ending a capture", api()->end_capture(stream, &graph));
    return error.empty() ? ended : error;
}

std::string CudaGraphs::make(Flat flat, cuda::StreamHandle stream, const std::function<std::string()> &encode,
                             cuda::GraphExecHandle &exec) {
    if (const auto same = by_hash_.find(flat.hash); same != by_hash_.end())
        api()->graph_exec_destroy(take(same->second));  // other commands of the same hash
    cuda::GraphHandle graph = nullptr;
    std::string error = capture(stream, encode, graph);
    cuda::GraphExecHandle made = nullptr;
    if (error.empty() && (made = take_alike(flat))) {
        cuda::GraphUpdateResult result = {};
        if (api()->graph_update(made, graph, &result) != kSuccess) {  // CUDA has rules of its own for that
            api()->graph_exec_destroy(made);
            made = nullptr;
        }
    }
    if (error.empty() && !made) {
        while (!graphs_.empty() && nodes_ + flat.nodes > kMostNodes)
            api()->graph_exec_destroy(take(std::prev(graphs_.end())));
        error = gpu_->check("instantiating a graph", api()->graph_instantiate(&made, graph, 0));
    }
    if (graph) api()->graph_destroy(graph);
    if (!error.empty()) return error;
    const uint64_t hash = flat.hash;
    nodes_ += flat.nodes;
    graphs_.push_front({std::move(flat), made});
    by_hash_.emplace(hash, graphs_.begin());
    exec = made;
    return {};
}

// The oldest graph of the same structure, once there are many or there is no room for more. Below that a
// graph is worth more as it is: what comes round again, say one command buffer for each layer, is found
// again.
cuda::GraphExecHandle CudaGraphs::take_alike(const Flat &flat) {
    size_t alike = 0;
    auto oldest = graphs_.end();
    for (auto graph = graphs_.begin(); graph != graphs_.end(); ++graph) {
        if (graph->flat.structure != flat.structure) continue;
        ++alike;
        oldest = graph;
    }
    const bool full = nodes_ + flat.nodes > kMostNodes;
    return alike > 0 && (alike >= kMostAlike || full) ? take(oldest) : nullptr;
}

cuda::GraphExecHandle CudaGraphs::take(Graphs::iterator graph) {
    const cuda::GraphExecHandle exec = graph->exec;
    by_hash_.erase(graph->flat.hash);
    nodes_ -= graph->flat.nodes;
    graphs_.erase(graph);
    return exec;
}

void CudaGraphs::clear() {
    while (!graphs_.empty()) api()->graph_exec_destroy(take(graphs_.begin()));
}

}  // namespace qwisp::metal
