#include "metal_runtime/device/compute_encoder.h"

namespace qwisp::metal {
namespace {

constexpr size_t kMaxBytes = 4096;                 // Metal: setBytes
constexpr size_t kThreadgroupMemoryMultiple = 16;  // Metal: setThreadgroupMemoryLength

MTL::Size size(const Size3 &size) { return MTL::Size(size[0], size[1], size[2]); }

bool has_zero(const Size3 &size) { return size[0] == 0 || size[1] == 0 || size[2] == 0; }

// Nothing if the product does not fit.
std::optional<uint64_t> volume(const Size3 &size) {
    uint64_t product = 1;
    for (const uint64_t side : size) {
        if (__builtin_mul_overflow(product, side, &product)) return std::nullopt;
    }
    return product;
}

}  // namespace

ComputeEncoder::ComputeEncoder(MTL::CommandBuffer *buffer, MTL::DispatchType type)
    : Encoder(buffer, "compute encoder", "computeCommandEncoder"), phase_(commands_.next_phase()) {
    if (type == MTL::DispatchTypeConcurrent) tracker_.emplace();
}

std::string ComputeEncoder::argument(const Argument &argument) const {
    return kernel() + ": argument " + argument.name + " (slot " + std::to_string(argument.index) + ")";
}

void ComputeEncoder::refuse_slot(const char *call, size_t slot) {
    misuse(Misuse::slot_range, std::string(call) + ": slot " + std::to_string(slot) +
                                   ", but the last one is " + std::to_string(kMaxBuffers - 1));
}

void ComputeEncoder::refuse_offset(const char *call, size_t offset, const Allocation &allocation) {
    misuse(Misuse::offset_range, std::string(call) + ": offset " + std::to_string(offset) +
                                     ", but it must be less than the length of " + allocation.name());
}

void ComputeEncoder::set_pipeline(const MTL::ComputePipelineState *pipeline) {
    check_open("setComputePipelineState");
    if (!pipeline) misuse(Misuse::null_argument, "setComputePipelineState: the pipeline state is null");
    const PipelineState *const state = pipeline_class().find(pipeline);
    if (!state || state->core() != commands_.core()) {
        misuse(Misuse::foreign_object,
               "setComputePipelineState: the pipeline state was not made by this device");
    }
    if (pipeline_ == state->pipeline.get()) return;
    commands_.hold(state->pipeline);
    pipeline_ = state->pipeline.get();
    changed_ = true;
}

void ComputeEncoder::set_buffer(const MTL::Buffer *buffer, size_t offset, size_t slot) {
    check_open("setBuffer");
    check_slot("setBuffer", slot);
    changed_ = true;
    if (!buffer) {
        bindings_[slot] = {};
        return;
    }
    const Allocation &allocation = use(buffer, "setBuffer", "the buffer");
    check_offset("setBuffer", offset, allocation);
    bindings_[slot] = {allocation.memory.get(), nullptr, offset, allocation.length - offset};
}

void ComputeEncoder::set_buffers(const MTL::Buffer *const *buffers, const NS::UInteger *offsets,
                                 NS::Range slots) {
    check_open("setBuffers");
    if (!buffers || !offsets) misuse(Misuse::null_argument, "setBuffers: buffers or offsets is null");
    if (slots.length > 0) {
        check_slot("setBuffers", slots.location);
        check_slot("setBuffers",
                   slots.length > kMaxBuffers ? slots.length : slots.location + slots.length - 1);
    }
    for (size_t i = 0; i < slots.length; ++i) set_buffer(buffers[i], offsets[i], slots.location + i);
}

void ComputeEncoder::set_buffer_offset(size_t offset, size_t slot) {
    check_open("setBufferOffset");
    check_slot("setBufferOffset", slot);
    Binding &binding = bindings_[slot];
    if (!binding.memory) {
        misuse(Misuse::offset_unbound, "setBufferOffset: no buffer is bound to slot " + std::to_string(slot));
    }
    const size_t length = binding.offset + binding.length;
    if (offset >= length) {
        misuse(Misuse::offset_range, "setBufferOffset: offset " + std::to_string(offset) + ", but buffer" +
                                         quoted(binding.memory->label) + " has " + std::to_string(length) +
                                         " bytes");
    }
    binding.offset = offset;
    binding.length = length - offset;
    changed_ = true;
}

void ComputeEncoder::set_bytes(const void *bytes, size_t length, size_t slot) {
    check_open("setBytes");
    check_slot("setBytes", slot);
    if (!bytes) misuse(Misuse::null_argument, "setBytes: bytes is null");
    if (length == 0 || length > kMaxBytes) {
        misuse(Misuse::bytes_length, "setBytes: " + std::to_string(length) + " bytes for slot " +
                                         std::to_string(slot) + ", but 1 to " + std::to_string(kMaxBytes) +
                                         " are possible; use a buffer");
    }
    bindings_[slot] = {nullptr, commands_.keep(bytes, length), 0, length};
    changed_ = true;
}

void ComputeEncoder::set_threadgroup_memory(size_t length, size_t index) {
    check_open("setThreadgroupMemoryLength");
    const std::string call =
        "setThreadgroupMemoryLength: " + std::to_string(length) + " bytes for index " + std::to_string(index);
    if (index >= kMaxBuffers) misuse(Misuse::threadgroup_memory, call + ", but the last index is 30");
    if (length % kThreadgroupMemoryMultiple != 0) {
        misuse(Misuse::threadgroup_memory, call + ", but the length must be a multiple of 16");
    }
    const size_t most = commands_.core()->limits.max_threadgroup_memory;
    if (length > most) {
        misuse(Misuse::threadgroup_memory, call + ", but the device has " + std::to_string(most));
    }
    threadgroup_memory_sum_ += length - threadgroup_memory_[index];
    threadgroup_memory_[index] = length;
    changed_ = true;
}

void ComputeEncoder::check_shape(const char *call, const Size3 &groups, const Size3 &threads) {
    const std::string_view what = call;
    const auto fail = [&](Misuse kind, const std::string &text) {
        misuse(kind, std::string(what) + ": " + text);
    };
    if (!pipeline_) fail(Misuse::no_pipeline, "no compute pipeline state is set");
    if (has_zero(groups))
        fail(Misuse::grid_empty, kernel() + ": a grid of " + size_text(size(groups)) + " threadgroups");
    if (has_zero(threads))
        fail(Misuse::group_empty, kernel() + ": a threadgroup of " + size_text(size(threads)) + " threads");
    const auto total = volume(threads);
    if (!total || *total > pipeline_->max_threads) {
        fail(Misuse::group_range, kernel() + ": a threadgroup of " + size_text(size(threads)) +
                                      " threads, but it may have at most " +
                                      std::to_string(pipeline_->max_threads));
    }
    for (const uint64_t side : groups) {
        if (side > UINT32_MAX)
            fail(Misuse::grid_range, kernel() + ": a grid of " + size_text(size(groups)) + " threadgroups");
    }
    const auto count = volume(groups);
    if (uint64_t all; !count || __builtin_mul_overflow(*count, *total, &all)) {
        fail(Misuse::grid_range, kernel() + ": a grid of " + size_text(size(groups)) + " threadgroups");
    }
    const Size3 &required = pipeline_->required_threads;
    const size_t width = commands_.core()->limits.simd_width;
    if (required[0] != 0 && threads != required) {
        fail(Misuse::group_shape, kernel() + ": a threadgroup of " + size_text(size(threads)) +
                                      " threads, but its pipeline requires " + size_text(size(required)));
    }
    if (pipeline_->whole_simdgroups && *total % width != 0) {
        fail(Misuse::group_shape, kernel() + ": a threadgroup of " + size_text(size(threads)) +
                                      " threads, but its pipeline was promised multiples of " +
                                      std::to_string(width));
    }
}

void ComputeEncoder::check_arguments() {
    for (const Argument &wanted : pipeline_->arguments) {
        const Binding &found = bindings_[wanted.index];
        if (!found.memory && !found.bytes) [[unlikely]] {
            misuse(Misuse::binding_missing, argument(wanted) + ": nothing is bound to it");
        }
        if (wanted.writes && found.bytes) [[unlikely]] {
            misuse(Misuse::binding_read_only,
                   argument(wanted) + ": the kernel writes it, but it has data of setBytes");
        }
        if ((found.offset & (wanted.alignment - 1)) != 0) [[unlikely]] {
            misuse(Misuse::binding_alignment, argument(wanted) + ": offset " + std::to_string(found.offset) +
                                                  " into buffer" + quoted(found.memory->label) +
                                                  ", but it must be a multiple of " +
                                                  std::to_string(wanted.alignment));
        }
        if (found.length < wanted.element_size) [[unlikely]] {
            misuse(Misuse::binding_length, argument(wanted) + ": " + std::to_string(found.length) +
                                               " bytes are bound, but one element has " +
                                               std::to_string(wanted.element_size));
        }
    }
    const size_t most = commands_.core()->limits.max_threadgroup_memory;
    if (threadgroup_memory_sum_ + pipeline_->threadgroup_memory > most) [[unlikely]] {
        misuse(Misuse::threadgroup_memory, kernel() + ": " + std::to_string(pipeline_->threadgroup_memory) +
                                               " + " + std::to_string(threadgroup_memory_sum_) +
                                               " bytes of threadgroup memory, but the device has " +
                                               std::to_string(most));
    }
}

void ComputeEncoder::dispatch(const char *call, const Size3 &groups, const Size3 &threads,
                              const Size3 &grid) {
    check_shape(call, groups, threads);
    if (changed_) {
        check_arguments();
        kept_ = commands_.keep(std::span(bindings_).first(pipeline_->slots));
        changed_ = false;
    }
    if (tracker_) {
        if (const auto conflict = tracker_->dispatch(*pipeline_, kept_)) misuse(Misuse::hazard, *conflict);
    } else {
        phase_ = commands_.next_phase();
    }
    commands_.encode(Dispatch{pipeline_->kernel.get(), kept_, groups, threads, grid, phase_});
}

void ComputeEncoder::dispatch_groups(const Size3 &groups, const Size3 &threads) {
    check_open("dispatchThreadgroups");
    dispatch("dispatchThreadgroups", groups, threads,
             {groups[0] * threads[0], groups[1] * threads[1], groups[2] * threads[2]});
}

void ComputeEncoder::dispatch_threads(const Size3 &grid, const Size3 &threads) {
    check_open("dispatchThreads");
    Size3 groups;
    bool uniform = true;
    for (size_t i = 0; i < 3; ++i) {
        const uint64_t side = threads[i] ? threads[i] : 1;
        groups[i] = grid[i] / side + (grid[i] % side != 0);
        uniform = uniform && grid[i] % side == 0;
    }
    if (!uniform && !commands_.core()->limits.nonuniform_threadgroups) {
        misuse(Misuse::group_uniform, "dispatchThreads: a grid of " + size_text(size(grid)) +
                                          " threads is no multiple of the threadgroup, " +
                                          size_text(size(threads)) +
                                          ", and this device has no smaller threadgroups at the edges");
    }
    dispatch("dispatchThreads", groups, threads, grid);
}

void ComputeEncoder::barrier(MTL::BarrierScope scope) {
    check_open("memoryBarrier");
    constexpr NS::UInteger known =
        MTL::BarrierScopeBuffers | MTL::BarrierScopeTextures | MTL::BarrierScopeRenderTargets;
    if (scope == 0 || (scope & ~known) != 0) {
        misuse(Misuse::barrier_scope, "memoryBarrier: scope " + std::to_string(scope) + ", but buffers is 1");
    }
    if (barrier_calls_++ == ignored_barrier_) return;
    if (!tracker_) {
        ++serial_barriers_;
    } else if (scope & MTL::BarrierScopeBuffers) {
        tracker_->barrier();
        phase_ = commands_.next_phase();
    } else {
        tracker_->barrier({});
    }
}

void ComputeEncoder::barrier(const MTL::Resource *const *resources, size_t count) {
    check_open("memoryBarrier");
    if (!resources || count == 0) misuse(Misuse::barrier_scope, "memoryBarrier: no resources are named");
    std::vector<const Memory *> memories;
    for (size_t i = 0; i < count; ++i) {
        memories.push_back(
            use(static_cast<const MTL::Buffer *>(resources[i]), "memoryBarrier", "a resource").memory.get());
    }
    if (barrier_calls_++ == ignored_barrier_) return;
    if (!tracker_) {
        ++serial_barriers_;
        return;
    }
    tracker_->barrier(memories);
    phase_ = commands_.next_phase();
}

void ComputeEncoder::use_resources(const MTL::Resource *const *resources, size_t count) {
    check_open("useResources");
    if (!resources) misuse(Misuse::null_argument, "useResources: resources is null");
    for (size_t i = 0; i < count; ++i)
        use(static_cast<const MTL::Buffer *>(resources[i]), "useResource", "the resource");
}

void ComputeEncoder::end_encoding() {
    end();
    commands_.count_barriers(tracker_ ? tracker_->barriers() : serial_barriers_,
                             tracker_ ? tracker_->superfluous() : serial_barriers_);
}

}  // namespace qwisp::metal
