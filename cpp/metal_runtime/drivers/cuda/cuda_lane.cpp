#include "cuda_lane.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cuda_memory.h"

namespace qwisp::metal {
namespace {

using cuda::api;
using cuda::kSuccess;

constexpr size_t kLong = 16;  // commands: from here on a graph is made at once, below it at the second sight
constexpr size_t kSeen = 64;
constexpr Size3 kMostGroups = {0x7fffffff, 0xffff, 0xffff};

CudaMemory &memory_of(Memory *memory) { return *static_cast<CudaMemory *>(memory); }
const CudaKernel &kernel_of(const Dispatch &dispatch) {
    return *static_cast<const CudaKernel *>(dispatch.kernel);
}

// Ranges of addresses. Two buffers may show the same memory (wrapped memory does), so they are no identity.
class Ranges {
  public:
    bool touch(uint64_t first, uint64_t end) const {
        const auto after = std::lower_bound(all_.begin(), all_.end(), end, starts_before);
        return after != all_.begin() && std::prev(after)->end > first;
    }
    void add(uint64_t first, uint64_t end) {
        auto from = std::lower_bound(all_.begin(), all_.end(), first, starts_before);
        if (from != all_.begin() && std::prev(from)->end >= first) --from;
        auto to = from;
        for (; to != all_.end() && to->first <= end; ++to) {
            first = std::min(first, to->first);
            end = std::max(end, to->end);
        }
        if (from == to) {
            all_.insert(from, {first, end});
        } else {
            *from = {first, end};
            all_.erase(from + 1, to);
        }
    }
    void clear() { all_.clear(); }

  private:
    struct Range {
        uint64_t first, end;
    };
    static bool starts_before(const Range &range, uint64_t address) { return range.first < address; }

    std::vector<Range> all_;  // in order, apart from each other
};

// Which dispatches may start before the one before them has ended. What such a kernel reads early must not
// have been written since the last kernel that waited for everything: the kernel before it has waited for its
// own predecessors only once it runs past its own wait.
class Overlap {
  public:
    explicit Overlap(Launching launching) : on_(launching == Launching::dependent) {}

    bool dispatch(const Dispatch &dispatch) {
        if (!on_) return false;
        const CudaKernel &kernel = kernel_of(dispatch);
        const bool overlaps = behind_kernel_ && kernel.overlaps() && !reads_written(dispatch);
        if (!overlaps) written_.clear();
        behind_kernel_ = true;
        note_writes(dispatch);
        return overlaps;
    }
    void other() {
        behind_kernel_ = false;
        written_.clear();
    }

  private:
    template <class F>
    static bool any_argument(const Dispatch &dispatch, F is_it) {
        const auto &arguments = kernel_of(dispatch).info().arguments;
        for (size_t i = 0; i < arguments.size(); ++i) {
            if (arguments[i].index >= dispatch.bindings.size()) continue;
            const Binding &binding = dispatch.bindings[arguments[i].index];
            if (!binding.memory) continue;
            const uint64_t first = memory_of(binding.memory).address() + binding.offset;
            if (is_it(i, arguments[i], first, first + binding.length)) return true;
        }
        return false;
    }
    bool reads_written(const Dispatch &dispatch) const {
        return any_argument(dispatch, [&](size_t i, const Argument &, uint64_t first, uint64_t end) {
            return kernel_of(dispatch).is_early(i) && written_.touch(first, end);
        });
    }
    void note_writes(const Dispatch &dispatch) {
        any_argument(dispatch, [&](size_t, const Argument &argument, uint64_t first, uint64_t end) {
            if (argument.writes) written_.add(first, end);
            return false;
        });
    }

    const bool on_;
    bool behind_kernel_ = false;
    Ranges written_;
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
            pointers_[i] =
                const_cast<std::byte *>(static_cast<const std::byte *>(binding.bytes)) + binding.offset;
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
        if (dispatch.groups[i] > kMostGroups[i]) {
            return "kernel " + dispatch.kernel->info().name + ": " + std::to_string(dispatch.groups[i]) +
                   " threadgroups in dimension " + std::to_string(i) + ", but this device takes at most " +
                   std::to_string(kMostGroups[i]);
        }
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

void mix(uint64_t &hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
}

class KeyWriter {
  public:
    KeyWriter(Flat &flat, Launching launching) : flat_(flat), overlap_(launching) {
        flat.key.push_back(uint64_t(launching));
    }

    void add(const Dispatch &dispatch) {
        const CudaKernel &kernel = kernel_of(dispatch);
        flat_.key.push_back(reinterpret_cast<uintptr_t>(kernel.function()) * 2 + overlap_.dispatch(dispatch));
        flat_.key.insert(flat_.key.end(), dispatch.groups.begin(), dispatch.groups.end());
        flat_.key.insert(flat_.key.end(), dispatch.threads.begin(), dispatch.threads.end());
        shape(flat_.key.size() - 7);
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
                flat_.key.push_back(binding.memory ? memory_of(binding.memory).address() + binding.offset
                                                   : 0);
            }
        }
    }

  private:
    // What the key has from here on says what the nodes are; the rest, what they work on.
    void shape(size_t from) {
        for (; from < flat_.key.size(); ++from) mix(flat_.structure, flat_.key[from]);
    }

    Flat &flat_;
    Overlap overlap_;
};

}  // namespace

Flat flatten(std::span<const Command> dispatches, Launching launching) {
    Flat flat;
    flat.key.reserve(dispatches.size() * 20 + 1);
    KeyWriter writer(flat, launching);
    for (const Command &command : dispatches) writer.add(std::get<Dispatch>(command));
    flat.nodes = dispatches.size();
    for (const uint64_t word : flat.key) mix(flat.hash, word);
    return flat;
}

std::string CudaLane::submit(cuda::Gpu &gpu, std::span<const Command> commands, Launching launching,
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

// One command buffer's way through the device.
class CudaLane::Passage final : public Flight {
  public:
    explicit Passage(CudaLane &lane) : lane_(lane) { ++lane_.flying_; }
    ~Passage() override {
        --lane_.flying_;
        const std::lock_guard lock(lane_.mutex_);
        if (events_.start && events_.end) lane_.spare_.push_back(events_);
    }

    void begin(const std::vector<Command> &commands) {
        const cuda::Current current(*lane_.gpu_);
        error_ = current.error();
        if (error_.empty()) error_ = lane_.open(events_);
        if (!error_.empty()) return;
        started_ = true;
        then("recording an event", api()->event_record(events_.start, lane_.stream_));
        if (error_.empty()) error_ = lane_.launch(commands);
        // Also after an error: what was launched before it may still run.
        then("recording an event", api()->event_record(events_.end, lane_.stream_));
    }
    void fail(std::string error) { error_ = std::move(error); }

    std::string finish(double *seconds) override {
        if (!started_) return error_;
        const cuda::Current current(*lane_.gpu_);
        const bool was_well = error_.empty();
        if (!current) return was_well ? current.error() : error_;
        if (was_well) then("running the commands", api()->event_wait(events_.end));
        // A fault is all that CUDA tells: not of which command buffer, if several were on their way.
        if (const int others = lane_.flying_ - 1; was_well && !error_.empty() && others > 0)
            error_ +=
                " (here, or in one of the " + std::to_string(others) + " command buffers behind this one)";
        // All that the stream has, if there is no telling when this had ended.
        if (!error_.empty()) lane_.gpu_->check("running the commands", api()->stream_wait(lane_.stream_));
        float milliseconds = 0;
        if (error_.empty() && api()->event_elapsed(&milliseconds, events_.start, events_.end) == kSuccess)
            *seconds = double(milliseconds) * 1e-3;
        return error_;
    }

  private:
    void then(const char *call, cuda::Result result) {
        std::string error = lane_.gpu_->check(call, result);
        if (error_.empty()) error_ = std::move(error);
    }

    CudaLane &lane_;
    Events events_;
    bool started_ = false;
    std::string error_;
};

CudaLane::CudaLane(std::shared_ptr<cuda::Gpu> gpu, std::shared_ptr<const std::atomic<Launching>> launching)
    : gpu_(std::move(gpu)), launching_(std::move(launching)), graphs_(gpu_) {}

CudaLane::~CudaLane() {
    if (stream_ == nullptr) return;
    const cuda::Current current(*gpu_);
    if (!current) return;  // lost: all went with the context
    graphs_.clear();
    for (const Events &each : spare_) {
        api()->event_destroy(each.start);
        api()->event_destroy(each.end);
    }
    api()->stream_destroy(stream_);
}

std::unique_ptr<Flight> CudaLane::start(const std::vector<Command> &commands) {
    auto passage = std::make_unique<Passage>(*this);
    try {
        passage->begin(commands);
    } catch (const std::exception &error) {  // not on to the caller: some commands may be running
        passage->fail(std::string("the driver failed: ") + error.what());
    }
    return passage;
}

std::string CudaLane::open(Events &events) {
    std::string error;
    if (!stream_)
        error = gpu_->check("making a stream", api()->stream_create(&stream_, cuda::kStreamNonBlocking));
    if (!error.empty()) return error;
    {
        const std::lock_guard lock(mutex_);
        if (!spare_.empty()) {
            events = spare_.back();
            spare_.pop_back();
            return {};
        }
    }
    error = gpu_->check("making an event", api()->event_create(&events.start, cuda::kEventDefault));
    if (error.empty())
        error = gpu_->check("making an event", api()->event_create(&events.end, cuda::kEventDefault));
    if (!error.empty() && events.start) api()->event_destroy(events.start);
    return error;
}

// Dispatches in a row make one graph. Copies and fills stay out of graphs: CUDA keeps what it knows of their
// memory in the graph, and that may have been freed, and made anew at the same address, when it is launched.
std::string CudaLane::launch(std::span<const Command> commands) {
    const auto is_dispatch = [](const Command &command) { return std::holds_alternative<Dispatch>(command); };
    const Launching launching = *launching_;
    while (!commands.empty()) {
        const bool dispatches = is_dispatch(commands.front()) && launching != Launching::stream;
        const auto end = std::find_if(commands.begin(), commands.end(), [&](const Command &command) {
            return is_dispatch(command) != dispatches && launching != Launching::stream;
        });
        const auto some = commands.first(size_t(end - commands.begin()));
        std::string error =
            dispatches ? launch_graph(some, launching) : submit(*gpu_, some, launching, stream_);
        if (!error.empty()) return error;
        commands = commands.subspan(some.size());
    }
    return {};
}

std::string CudaLane::launch_graph(std::span<const Command> dispatches, Launching launching) {
    Flat flat = flatten(dispatches, launching);
    cuda::GraphExecHandle graph = graphs_.find(flat);
    if (graph == nullptr) {
        const auto encode = [&] { return submit(*gpu_, dispatches, launching, stream_); };
        const bool again = std::find(seen_.begin(), seen_.end(), flat.hash) != seen_.end();
        if (dispatches.size() < kLong && (!again || dispatches.size() == 1)) {
            seen_.resize(kSeen);
            if (!again) seen_[next_seen_++ % kSeen] = flat.hash;
            return encode();
        }
        std::string error = graphs_.make(std::move(flat), stream_, encode, graph);
        if (!error.empty()) return error;
    }
    return gpu_->check("launching a graph", api()->graph_launch(graph, stream_));
}

}  // namespace qwisp::metal
