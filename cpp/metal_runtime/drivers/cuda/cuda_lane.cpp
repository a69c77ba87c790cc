#include "cuda_lane.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cuda_memory.h"

namespace qwisp::metal {
namespace {

using cuda::api;
using cuda::kSuccess;

constexpr size_t kMostNodes = size_t{1} << 17;  // of all graphs that are kept
constexpr size_t kLong = 16;    // commands: from here on a graph is made at once, below it at the second sight
constexpr size_t kSeen = 64;

CudaMemory &memory_of(Memory *memory) { return *static_cast<CudaMemory *>(memory); }
const CudaKernel &kernel_of(const Dispatch &dispatch) {
    return *static_cast<const CudaKernel *>(dispatch.kernel);
}

// Which dispatches may start before the one before them has ended. What such a kernel reads early must not have
// been written since the last kernel that waited for everything: the kernel before it has waited for its own
// predecessors only once it runs past its own wait.
class Overlap {
  public:
    explicit Overlap(Launching launching) : on_(launching == Launching::dependent) {}

    bool dispatch(const Dispatch &dispatch) {
        const CudaKernel &kernel = kernel_of(dispatch);
        const bool overlaps = on_ && behind_kernel_ && kernel.overlaps() && !reads_written(dispatch);
        if (!overlaps) written_.clear();
        behind_kernel_ = true;
        if (on_) note_writes(dispatch);
        return overlaps;
    }
    void other() {
        behind_kernel_ = false;
        written_.clear();
    }

  private:
    bool reads_written(const Dispatch &dispatch) const {
        const CudaKernel &kernel = kernel_of(dispatch);
        const auto &arguments = kernel.info().arguments;
        for (size_t i = 0; i < arguments.size(); ++i) {
            if (!kernel.is_early(i) || arguments[i].index >= dispatch.bindings.size()) continue;
            const Memory *const memory = dispatch.bindings[arguments[i].index].memory;
            if (memory && std::find(written_.begin(), written_.end(), memory) != written_.end()) return true;
        }
        return false;
    }
    void note_writes(const Dispatch &dispatch) {
        for (const Argument &argument : kernel_of(dispatch).info().arguments) {
            if (!argument.writes || argument.index >= dispatch.bindings.size()) continue;
            const Memory *const memory = dispatch.bindings[argument.index].memory;
            if (memory && (written_.empty() || written_.back() != memory)) written_.push_back(memory);
        }
        // Longer than any search is worth: the next kernel waits.
        if (written_.size() > kMostWritten) behind_kernel_ = false;
    }

    static constexpr size_t kMostWritten = 1 << 13;
    const bool on_;
    bool behind_kernel_ = false;
    std::vector<const Memory *> written_;
};

// The parameters of one kernel, in the order of its signature.
class Parameters {
  public:
    std::string set(const Dispatch &dispatch) {
        const auto &arguments = kernel_of(dispatch).info().arguments;
        for (size_t i = 0; i < arguments.size(); ++i) {
            const Argument &argument = arguments[i];
            const Binding binding =
                argument.index < dispatch.bindings.size() ? dispatch.bindings[argument.index] : Binding{};
            addresses_[i] = binding.memory ? memory_of(binding.memory).address() + binding.offset : 0;
            pointers_[i] = &addresses_[i];
            if (!argument.is_constant) continue;
            if (binding.bytes == nullptr) {
                return "kernel " + dispatch.kernel->info().name + ": argument '" + argument.name +
                       "' needs setBytes on this device, but a buffer or nothing is bound";
            }
            pointers_[i] = const_cast<std::byte *>(static_cast<const std::byte *>(binding.bytes)) +
                           binding.offset;
        }
        return {};
    }
    void **data() { return pointers_.data(); }

  private:
    std::array<uint64_t, kMaxBuffers> addresses_;
    std::array<void *, kMaxBuffers> pointers_;
};

std::string enqueue(cuda::Gpu &gpu, const Dispatch &dispatch, bool overlaps, cuda::StreamHandle stream) {
    Parameters parameters;
    std::string error = parameters.set(dispatch);
    if (!error.empty()) return error;
    cuda::LaunchAttribute attribute = {};
    attribute.id = cuda::kLaunchProgrammatic;
    attribute.value.programmatic = 1;
    cuda::LaunchConfig config = {};
    for (size_t i = 0; i < 3; ++i) {
        config.grid[i] = unsigned(dispatch.groups[i]);
        config.block[i] = unsigned(dispatch.threads[i]);
    }
    config.stream = stream;
    config.attributes = &attribute;
    config.attribute_count = overlaps ? 1 : 0;
    const auto result = api()->launch(&config, kernel_of(dispatch).function(), parameters.data(), nullptr);
    if (result == kSuccess) return {};
    return gpu.check(("launching kernel " + dispatch.kernel->info().name).c_str(), result);
}

std::string enqueue(cuda::Gpu &gpu, const Copy &copy, cuda::StreamHandle stream) {
    CudaMemory &from = memory_of(copy.from), &to = memory_of(copy.to);
    if (!from.holds(copy.from_offset, copy.length) || !to.holds(copy.to_offset, copy.length)) {
        return "copy of " + std::to_string(copy.length) + " bytes leaves its buffer";
    }
    return gpu.check("a copy", api()->copy(to.address() + copy.to_offset, from.address() + copy.from_offset,
                                           copy.length, stream));
}

std::string enqueue(cuda::Gpu &gpu, const Fill &fill, cuda::StreamHandle stream) {
    CudaMemory &to = memory_of(fill.to);
    if (!to.holds(fill.offset, fill.length)) {
        return "fill of " + std::to_string(fill.length) + " bytes leaves its buffer";
    }
    return gpu.check("a fill", api()->fill(to.address() + fill.offset, fill.value, fill.length, stream));
}

class KeyWriter {
  public:
    KeyWriter(Flat &flat, Launching launching) : flat_(flat), overlap_(launching) {
        flat.key.push_back(uint64_t(launching));
    }

    std::string operator()(const Dispatch &dispatch) {
        const CudaKernel &kernel = kernel_of(dispatch);
        flat_.key.push_back(reinterpret_cast<uintptr_t>(kernel.function()) * 2 + overlap_.dispatch(dispatch));
        flat_.key.insert(flat_.key.end(), dispatch.groups.begin(), dispatch.groups.end());
        flat_.key.insert(flat_.key.end(), dispatch.threads.begin(), dispatch.threads.end());
        for (const Argument &argument : kernel.info().arguments) {
            const Binding binding =
                argument.index < dispatch.bindings.size() ? dispatch.bindings[argument.index] : Binding{};
            if (argument.is_constant && binding.bytes) {
                const auto *const bytes = static_cast<const std::byte *>(binding.bytes) + binding.offset;
                for (size_t at = 0; at < argument.element_size; at += sizeof(uint64_t)) {
                    uint64_t word = 0;
                    std::memcpy(&word, bytes + at, std::min(sizeof word, argument.element_size - at));
                    flat_.key.push_back(word);
                }
            } else {
                flat_.key.push_back(binding.memory ? memory_of(binding.memory).address() + binding.offset : 0);
            }
        }
        return {};
    }
    std::string operator()(const Copy &copy) {
        overlap_.other();
        flat_.key.insert(flat_.key.end(), {1, memory_of(copy.from).address() + copy.from_offset,
                                           memory_of(copy.to).address() + copy.to_offset, copy.length});
        return {};
    }
    std::string operator()(const Fill &fill) {
        overlap_.other();
        flat_.key.insert(flat_.key.end(),
                         {2, memory_of(fill.to).address() + fill.offset, fill.length, fill.value});
        return {};
    }

  private:
    Flat &flat_;
    Overlap overlap_;
};

}  // namespace

std::string flatten(const std::vector<Command> &commands, Launching launching, Flat &flat) {
    flat.key.reserve(commands.size() * 20 + 1);
    KeyWriter writer(flat, launching);
    for (const Command &command : commands) {
        std::string error = std::visit(writer, command);
        if (!error.empty()) return error;
    }
    flat.nodes = commands.size();
    flat.hash = 0xcbf29ce484222325;
    for (const uint64_t word : flat.key) {
        flat.hash = (flat.hash ^ word) * 0x9e3779b97f4a7c15;
        flat.hash ^= flat.hash >> 29;
    }
    return {};
}

std::string CudaLane::submit(cuda::Gpu &gpu, const std::vector<Command> &commands, Launching launching,
                             cuda::StreamHandle stream) {
    Overlap overlap(launching);
    for (const Command &command : commands) {
        std::string error;
        if (const auto *const dispatch = std::get_if<Dispatch>(&command)) {
            error = enqueue(gpu, *dispatch, overlap.dispatch(*dispatch), stream);
        } else {
            overlap.other();
            if (const auto *const copy = std::get_if<Copy>(&command)) {
                error = enqueue(gpu, *copy, stream);
            } else {
                error = enqueue(gpu, std::get<Fill>(command), stream);
            }
        }
        if (!error.empty()) return error;
    }
    return {};
}

std::string CudaLane::open() {
    if (stream_) return {};
    std::string error = gpu_->check("making a stream", api()->stream_create(&stream_, cuda::kStreamNonBlocking));
    if (error.empty()) error = gpu_->check("making an event", api()->event_create(&start_, cuda::kEventDefault));
    if (error.empty()) error = gpu_->check("making an event", api()->event_create(&end_, cuda::kEventDefault));
    return error;
}

CudaLane::Graphs::iterator CudaLane::find(const Flat &flat) {
    const auto [first, last] = by_hash_.equal_range(flat.hash);
    for (auto it = first; it != last; ++it) {
        if (it->second->flat.key == flat.key) return it->second;
    }
    return graphs_.end();
}

void CudaLane::make_room(size_t nodes) {
    while (!graphs_.empty() && nodes_ + nodes > kMostNodes) {
        const auto oldest = std::prev(graphs_.end());
        const auto [first, last] = by_hash_.equal_range(oldest->flat.hash);
        by_hash_.erase(std::find_if(first, last, [&](const auto &each) { return each.second == oldest; }));
        nodes_ -= oldest->flat.nodes;
        api()->graph_exec_destroy(oldest->exec);
        graphs_.erase(oldest);
    }
}

std::string CudaLane::make_graph(const std::vector<Command> &commands, Launching launching, Flat flat) {
    make_room(flat.nodes);
    std::string error = gpu_->check("beginning a capture", api()->begin_capture(stream_, cuda::kCaptureRelaxed));
    if (!error.empty()) return error;
    error = submit(*gpu_, commands, launching, stream_);
    cuda::GraphHandle graph = nullptr;
    const std::string ended = gpu_->check("ending a capture", api()->end_capture(stream_, &graph));
    if (error.empty()) error = ended;
    cuda::GraphExecHandle exec = nullptr;
    if (error.empty()) {
        error = gpu_->check("instantiating a graph", api()->graph_instantiate(&exec, graph, 0));
    }
    if (graph) api()->graph_destroy(graph);
    if (!error.empty()) return error;
    nodes_ += flat.nodes;
    const uint64_t hash = flat.hash;
    graphs_.push_front({std::move(flat), exec});
    by_hash_.emplace(hash, graphs_.begin());
    return {};
}

std::string CudaLane::launch(const std::vector<Command> &commands, Launching launching) {
    if (launching == Launching::stream) return submit(*gpu_, commands, launching, stream_);
    Flat flat;
    std::string error = flatten(commands, launching, flat);
    if (!error.empty()) return error;
    auto graph = find(flat);
    if (graph == graphs_.end()) {
        const bool again = std::find(seen_.begin(), seen_.end(), flat.hash) != seen_.end();
        if (commands.size() < kLong && (!again || commands.size() == 1)) {
            seen_.resize(kSeen);
            if (!again) seen_[next_seen_++ % kSeen] = flat.hash;
            return submit(*gpu_, commands, launching, stream_);
        }
        error = make_graph(commands, launching, std::move(flat));
        if (!error.empty()) return error;
        graph = graphs_.begin();
    }
    graphs_.splice(graphs_.begin(), graphs_, graph);
    return gpu_->check("launching a graph", api()->graph_launch(graph->exec, stream_));
}

std::string CudaLane::run(const std::vector<Command> &commands, Launching launching, double *seconds) {
    std::string error = open();
    if (!error.empty()) return error;
    const auto then = [&](const char *call, cuda::Result result) {
        if (error.empty()) error = gpu_->check(call, result);
    };
    then("recording an event", api()->event_record(start_, stream_));
    if (error.empty()) error = launch(commands, launching);
    then("recording an event", api()->event_record(end_, stream_));
    // Also after an error: what was launched before it may still run.
    const std::string ended = gpu_->check("running the commands", api()->stream_wait(stream_));
    if (error.empty()) error = ended;
    float milliseconds = 0;
    if (error.empty() && api()->event_elapsed(&milliseconds, start_, end_) == kSuccess)
        *seconds = double(milliseconds) * 1e-3;
    return error;
}

}  // namespace qwisp::metal
