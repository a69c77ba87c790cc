// Commits every misuse of metal_runtime/device/validation.h. To add one: a row in its table there, a case
// here.
#include <doctest/doctest.h>
#include <unistd.h>

#include "fake_driver.h"
#include "metal_runtime/device/testing.h"

using namespace qwisp::test;

namespace {

// A fresh world with a command buffer, in which a case opens encoders as it needs them.
struct Scene : World {
    MTL::CommandBuffer *commands = queue->commandBuffer();

    Scene() { commands->setLabel(string("scene")); }
    MTL::ComputeCommandEncoder *compute() const { return commands->computeCommandEncoder(); }
    MTL::ComputeCommandEncoder *bound() const {  // ready to dispatch
        auto *const encoder = compute();
        const ScaleArgs args{4, 1};
        encoder->setComputePipelineState(scale.get());
        encoder->setBuffer(x.get(), 0, 0);
        encoder->setBuffer(y.get(), 0, 1);
        encoder->setBytes(&args, sizeof args, 2);
        return encoder;
    }
};

enum class Commit { unconcerned, refused };  // the scene's command buffer afterwards

struct Case {
    Misuse misuse;
    const char *part;  // of the message
    Commit after;
    void (*act)(Scene &);
};

constexpr auto kShared = MTL::ResourceStorageModeShared;

MTL::Size size(size_t width, size_t height = 1, size_t depth = 1) { return MTL::Size(width, height, depth); }
const World &elsewhere() {
    static const auto *const world = new World;  // never destroyed: its pool ends with the first scene's
    return *world;
}

const Case kOutside[] = {
    {Misuse::null_argument, "newLibrary: source is null", Commit::unconcerned,
     [](Scene &s) {
         s.device->newLibrary((NS::String *)nullptr, (MTL::CompileOptions *)nullptr, (NS::Error **)nullptr);
     }},
    {Misuse::null_argument, "name is null", Commit::unconcerned,
     [](Scene &s) { s.library->newFunction(nullptr); }},
    {Misuse::null_argument, "the compute function is null", Commit::unconcerned,
     [](Scene &s) { s.device->newComputePipelineState((MTL::Function *)nullptr, (NS::Error **)nullptr); }},
    {Misuse::null_argument, "bytes is null", Commit::unconcerned,
     [](Scene &s) { s.device->newBuffer((const void *)nullptr, 4, kShared); }},
    {Misuse::foreign_object, "the compute function was not made by this device", Commit::unconcerned,
     [](Scene &s) {
         const auto function = NS::TransferPtr(elsewhere().library->newFunction(string("add")));
         s.device->newComputePipelineState(function.get(), (NS::Error **)nullptr);
     }},
    {Misuse::buffer_length, "length 0", Commit::unconcerned,
     [](Scene &s) { s.device->newBuffer(0, kShared); }},
    {Misuse::buffer_storage, "storage mode 3", Commit::unconcerned,
     [](Scene &s) { s.device->newBuffer(4, MTL::ResourceOptions(3 << 4)); }},
    {Misuse::buffer_storage, "the host's bytes", Commit::unconcerned,
     [](Scene &s) { s.device->newBuffer("abc", 4, MTL::ResourceStorageModePrivate); }},
    {Misuse::buffer_no_copy, "multiples of the page size", Commit::unconcerned,
     [](Scene &s) { s.device->newBuffer(&s, 64, kShared, nullptr); }},
    {Misuse::modified_range, "only for managed storage", Commit::unconcerned,
     [](Scene &s) { s.x->didModifyRange(NS::Range(0, 4)); }},
    {Misuse::modified_range, "8 bytes from 60 on", Commit::unconcerned,
     [](Scene &s) {
         NS::TransferPtr(s.device->newBuffer(64, MTL::ResourceStorageModeManaged))
             ->didModifyRange(NS::Range(60, 8));
     }},
    {Misuse::queue_length, "at least 1", Commit::unconcerned,
     [](Scene &s) { s.device->newCommandQueue(NS::UInteger(0)); }},
    {Misuse::queue_stalled, "2 command buffers have not completed, and none of them is committed",
     Commit::unconcerned,
     [](Scene &s) {
         const auto queue = NS::TransferPtr(s.device->newCommandQueue(2));
         set_stall_limit(queue.get(), std::chrono::milliseconds(5));
         for (int i = 0; i < 3; ++i) queue->commandBuffer();
     }},
    {Misuse::wait_in_handler, "this handler keeps the queue from running it", Commit::unconcerned,
     [](Scene &s) {
         auto *const first = s.queue->commandBuffer(), *const second = s.queue->commandBuffer();
         std::optional<ValidationError> error;
         first->addCompletedHandler(MTL::HandlerFunction([&](MTL::CommandBuffer *) {
             try {
                 second->commit();
                 second->waitUntilCompleted();
             } catch (const ValidationError &caught) {
                 error = caught;
             }
         }));
         first->commit();
         first->waitUntilCompleted();
         if (error) throw *error;
     }},
};

const Case kBuffer[] = {
    {Misuse::wait_before_commit, "this would wait for ever", Commit::refused,
     [](Scene &s) { s.commands->waitUntilCompleted(); }},
    {Misuse::wait_before_commit, "waitUntilScheduled", Commit::refused,
     [](Scene &s) { s.commands->waitUntilScheduled(); }},
    {Misuse::commit_twice, "committed before", Commit::unconcerned,
     [](Scene &s) {
         s.commands->commit();
         s.commands->commit();
     }},
    {Misuse::commit_open_encoder, "compute encoder 'open' has not ended", Commit::refused,
     [](Scene &s) {
         s.compute()->setLabel(string("open"));
         s.commands->commit();
     }},
    {Misuse::commit_after_misuse,
     "commit refused after an earlier misuse: command buffer 'scene': popDebugGroup", Commit::refused,
     [](Scene &s) {
         refusal([&] { s.commands->popDebugGroup(); });
         refusal([&] { s.commands->popDebugGroup(); });
         s.commands->commit();
     }},
    {Misuse::enqueue_twice, "enqueued or committed before", Commit::refused,
     [](Scene &s) {
         s.commands->enqueue();
         s.commands->enqueue();
     }},
    {Misuse::changed_after_commit, "computeCommandEncoder: the command buffer was committed",
     Commit::unconcerned,
     [](Scene &s) {
         s.commands->commit();
         s.compute();
     }},
    {Misuse::changed_after_commit, "addCompletedHandler", Commit::unconcerned,
     [](Scene &s) {
         s.commands->commit();
         s.commands->addCompletedHandler(MTL::HandlerFunction([](MTL::CommandBuffer *) {}));
     }},
    {Misuse::encoder_open, "blitCommandEncoder: compute encoder is still encoding", Commit::refused,
     [](Scene &s) {
         s.compute();
         s.commands->blitCommandEncoder();
     }},
    {Misuse::encoder_open, "encodeSignalEvent", Commit::refused,
     [](Scene &s) {
         s.compute();
         s.commands->encodeSignalEvent(NS::TransferPtr(s.device->newEvent()).get(), 1);
     }},
    {Misuse::null_argument, "the event is null", Commit::refused,
     [](Scene &s) { s.commands->encodeWait(nullptr, 1); }},
    {Misuse::foreign_object, "the event was not made by this device", Commit::refused,
     [](Scene &s) { s.commands->encodeWait(NS::TransferPtr(elsewhere().device->newEvent()).get(), 1); }},
    {Misuse::encoder_dropped, "compute encoder 'lost' was released without endEncoding", Commit::refused,
     [](Scene &s) {
         {
             const Pool pool;
             s.compute()->setLabel(string("lost"));
         }
         s.commands->commit();
     }},
    {Misuse::debug_group, "no debug group was pushed", Commit::refused,
     [](Scene &s) { s.commands->popDebugGroup(); }},
};

const Case kEncoder[] = {
    {Misuse::encoder_ended, "compute encoder: setBuffer: the encoder has ended", Commit::refused,
     [](Scene &s) {
         auto *const encoder = s.compute();
         encoder->endEncoding();
         encoder->setBuffer(s.x.get(), 0, 0);
     }},
    {Misuse::encoder_ended, "endEncoding", Commit::refused,
     [](Scene &s) {
         auto *const encoder = s.commands->blitCommandEncoder();
         encoder->endEncoding();
         encoder->endEncoding();
     }},
    {Misuse::debug_group, "compute encoder: popDebugGroup", Commit::refused,
     [](Scene &s) { s.compute()->popDebugGroup(); }},
    {Misuse::null_argument, "the pipeline state is null", Commit::refused,
     [](Scene &s) { s.compute()->setComputePipelineState(nullptr); }},
    {Misuse::foreign_object, "the pipeline state was not made by this device", Commit::refused,
     [](Scene &s) { s.compute()->setComputePipelineState(elsewhere().scale.get()); }},
    {Misuse::foreign_object, "the buffer was not made by the command buffer's device", Commit::refused,
     [](Scene &s) { s.compute()->setBuffer(elsewhere().x.get(), 0, 0); }},
    {Misuse::slot_range, "slot 31, but the last one is 30", Commit::refused,
     [](Scene &s) { s.compute()->setBuffer(s.x.get(), 0, 31); }},
    {Misuse::slot_range, "setBytes: slot 31", Commit::refused,
     [](Scene &s) { s.compute()->setBytes("abc", 4, 31); }},
    {Misuse::slot_range, "setBuffers: slot 31", Commit::refused,
     [](Scene &s) {
         const MTL::Buffer *const buffers[] = {s.x.get(), s.y.get()};
         const NS::UInteger offsets[] = {0, 0};
         s.compute()->setBuffers(buffers, offsets, NS::Range(30, 2));
     }},
    {Misuse::null_argument, "setBuffers: buffers or offsets is null", Commit::refused,
     [](Scene &s) { s.compute()->setBuffers(nullptr, nullptr, NS::Range(0, 2)); }},
    {Misuse::offset_range, "offset 64, but it must be less than the length of buffer 'x' (64 bytes)",
     Commit::refused, [](Scene &s) { s.compute()->setBuffer(s.x.get(), 64, 0); }},
    {Misuse::offset_range, "setBufferOffset: offset 68", Commit::refused,
     [](Scene &s) { s.bound()->setBufferOffset(68, 0); }},
    {Misuse::offset_unbound, "no buffer is bound to slot 3", Commit::refused,
     [](Scene &s) { s.bound()->setBufferOffset(0, 3); }},
    {Misuse::bytes_length, "4097 bytes for slot 2", Commit::refused,
     [](Scene &s) { s.compute()->setBytes(std::vector<char>(4097).data(), 4097, 2); }},
    {Misuse::bytes_length, "0 bytes", Commit::refused, [](Scene &s) { s.compute()->setBytes("abc", 0, 2); }},
    {Misuse::null_argument, "setBytes: bytes is null", Commit::refused,
     [](Scene &s) { s.compute()->setBytes(nullptr, 4, 2); }},
    {Misuse::threadgroup_memory, "multiple of 16", Commit::refused,
     [](Scene &s) { s.compute()->setThreadgroupMemoryLength(20, 0); }},
    {Misuse::threadgroup_memory, "the last index is 30", Commit::refused,
     [](Scene &s) { s.compute()->setThreadgroupMemoryLength(16, 31); }},
    {Misuse::threadgroup_memory, "the device has 1024", Commit::refused,
     [](Scene &s) { s.compute()->setThreadgroupMemoryLength(2048, 0); }},
    {Misuse::threadgroup_memory, "256 + 1024 bytes of threadgroup memory", Commit::refused,
     [](Scene &s) {
         auto *const encoder = s.bound();
         encoder->setThreadgroupMemoryLength(1024, 0);
         encoder->dispatchThreadgroups(size(1), size(4));
     }},
    {Misuse::null_argument, "useResource: the resource is null", Commit::refused,
     [](Scene &s) { s.compute()->useResource(nullptr, MTL::ResourceUsageRead); }},
    {Misuse::barrier_scope, "scope 0", Commit::refused,
     [](Scene &s) { s.compute()->memoryBarrier(MTL::BarrierScope(0)); }},
    {Misuse::barrier_scope, "no resources", Commit::refused,
     [](Scene &s) { s.compute()->memoryBarrier((const MTL::Resource *const *)nullptr, 0); }},
};

const Case kDispatch[] = {
    {Misuse::no_pipeline, "no compute pipeline state is set", Commit::refused,
     [](Scene &s) { s.compute()->dispatchThreadgroups(size(1), size(4)); }},
    {Misuse::grid_empty, "kernel scale: a grid of 1 x 0 x 1 threadgroups", Commit::refused,
     [](Scene &s) { s.bound()->dispatchThreadgroups(size(1, 0), size(4)); }},
    {Misuse::grid_empty, "dispatchThreads", Commit::refused,
     [](Scene &s) { s.bound()->dispatchThreads(size(0), size(4)); }},
    {Misuse::group_empty, "a threadgroup of 4 x 1 x 0 threads", Commit::refused,
     [](Scene &s) { s.bound()->dispatchThreads(size(4), size(4, 1, 0)); }},
    {Misuse::group_range, "33 x 4 x 1 threads, but it may have at most 128", Commit::refused,
     [](Scene &s) { s.bound()->dispatchThreadgroups(size(1), size(33, 4)); }},
    {Misuse::group_range, "at most 128", Commit::refused,
     [](Scene &s) { s.bound()->dispatchThreadgroups(size(1), size(1ul << 32, 1ul << 32)); }},
    {Misuse::grid_range, "4294967296 x 1 x 1", Commit::refused,
     [](Scene &s) { s.bound()->dispatchThreadgroups(size(1ul << 32), size(1)); }},
    {Misuse::grid_range, "4294967295 x 4294967295 x 4294967295", Commit::refused,
     [](Scene &s) { s.bound()->dispatchThreadgroups(size(UINT32_MAX, UINT32_MAX, UINT32_MAX), size(1)); }},
    {Misuse::group_uniform, "a grid of 5 x 1 x 1 threads is no multiple of the threadgroup, 4 x 1 x 1",
     Commit::refused, [](Scene &s) { s.bound()->dispatchThreads(size(5), size(4)); }},
    {Misuse::group_shape, "promised multiples of 32", Commit::refused,
     [](Scene &s) {
         const auto function = NS::TransferPtr(s.library->newFunction(string("scale")));
         const auto descriptor = NS::TransferPtr(MTL::ComputePipelineDescriptor::alloc()->init());
         descriptor->setComputeFunction(function.get());
         descriptor->setThreadGroupSizeIsMultipleOfThreadExecutionWidth(true);
         const auto pipeline = NS::TransferPtr(
             s.device->newComputePipelineState(descriptor.get(), MTL::PipelineOptionNone, nullptr, nullptr));
         auto *const encoder = s.bound();
         encoder->setComputePipelineState(pipeline.get());
         encoder->dispatchThreadgroups(size(1), size(32));
         encoder->dispatchThreadgroups(size(1), size(33));
     }},
    {Misuse::group_shape, "requires 8 x 2 x 1", Commit::refused,
     [](Scene &s) {
         const auto function = NS::TransferPtr(s.library->newFunction(string("scale")));
         const auto descriptor = NS::TransferPtr(MTL::ComputePipelineDescriptor::alloc()->init());
         descriptor->setComputeFunction(function.get());
         descriptor->setRequiredThreadsPerThreadgroup(size(8, 2));
         const auto pipeline = NS::TransferPtr(
             s.device->newComputePipelineState(descriptor.get(), MTL::PipelineOptionNone, nullptr, nullptr));
         auto *const encoder = s.bound();
         encoder->setComputePipelineState(pipeline.get());
         encoder->dispatchThreadgroups(size(1), size(8, 2));
         encoder->dispatchThreadgroups(size(1), size(16));
     }},
    {Misuse::binding_missing, "kernel scale: argument y (slot 1): nothing is bound to it", Commit::refused,
     [](Scene &s) {
         auto *const encoder = s.bound();
         encoder->setBuffer(nullptr, 0, 1);
         encoder->dispatchThreadgroups(size(1), size(4));
     }},
    {Misuse::binding_read_only, "argument y (slot 1): the kernel writes it", Commit::refused,
     [](Scene &s) {
         auto *const encoder = s.bound();
         encoder->setBytes("abc", 4, 1);
         encoder->dispatchThreadgroups(size(1), size(4));
     }},
    {Misuse::binding_alignment,
     "argument v (slot 30): offset 8 into buffer 'x', but it must be a multiple of 16", Commit::refused,
     [](Scene &s) {
         auto *const encoder = s.compute();
         encoder->setComputePipelineState(s.pipeline("vector").get());
         encoder->setBuffer(s.x.get(), 8, 30);
         encoder->dispatchThreadgroups(size(1), size(1));
     }},
    {Misuse::binding_length, "argument args (slot 2): 4 bytes are bound, but one element has 8",
     Commit::refused,
     [](Scene &s) {
         auto *const encoder = s.bound();
         encoder->setBytes("abc", 4, 2);
         encoder->dispatchThreadgroups(size(1), size(4));
     }},
    {Misuse::binding_length, "argument x (slot 0): 2 bytes are bound", Commit::refused,
     [](Scene &s) {
         auto *const encoder = s.bound();
         encoder->setBuffer(s.buffer(6, "short").get(), 4, 0);
         encoder->dispatchThreadgroups(size(1), size(4));
     }},
    {Misuse::hazard,
     "missing barrier: kernel scale (argument x) reads buffer 'y' at offset 0, which kernel scale"
     " (argument y) writes",
     Commit::refused,
     [](Scene &s) {
         auto *const encoder = s.commands->computeCommandEncoder(MTL::DispatchTypeConcurrent);
         s.encode_scale(encoder, s.x, s.y, 1);
         s.encode_scale(encoder, s.y, s.z, 1);
     }},
};

const Case kBlit[] = {
    {Misuse::null_argument, "copyFromBuffer: the destination is null", Commit::refused,
     [](Scene &s) { s.commands->blitCommandEncoder()->copyFromBuffer(s.x.get(), 0, nullptr, 0, 4); }},
    {Misuse::foreign_object, "fillBuffer: the buffer", Commit::refused,
     [](Scene &s) { s.commands->blitCommandEncoder()->fillBuffer(elsewhere().x.get(), NS::Range(0, 4), 0); }},
    {Misuse::blit_range, "8 bytes from offset 60 on are not in buffer 'y' (64 bytes)", Commit::refused,
     [](Scene &s) { s.commands->blitCommandEncoder()->copyFromBuffer(s.x.get(), 0, s.y.get(), 60, 8); }},
    {Misuse::blit_range, "0 bytes", Commit::refused,
     [](Scene &s) { s.commands->blitCommandEncoder()->fillBuffer(s.x.get(), NS::Range(0, 0), 0); }},
    {Misuse::blit_alignment, "multiples of 4", Commit::refused,
     [](Scene &s) { s.commands->blitCommandEncoder()->copyFromBuffer(s.x.get(), 2, s.y.get(), 0, 4); }},
    {Misuse::blit_overlap, "overlap in buffer 'x'", Commit::refused,
     [](Scene &s) { s.commands->blitCommandEncoder()->copyFromBuffer(s.x.get(), 0, s.x.get(), 4, 8); }},
    {Misuse::modified_range, "synchronizeResource: only for managed storage", Commit::refused,
     [](Scene &s) { s.commands->blitCommandEncoder()->synchronizeResource(s.x.get()); }},
};

const char *name_of(Misuse misuse) {
    switch (misuse) {
#define NAME(name, what) \
    case Misuse::name:   \
        return #name;
        QWISP_METAL_MISUSES(NAME)
#undef NAME
    }
    return "?";
}

std::string or_nothing(const std::optional<Misuse> &misuse) { return misuse ? name_of(*misuse) : "nothing"; }

void commit_case(const Case &each) {
    CAPTURE(each.part);
    Scene scene;
    const Refusal refused = refusal([&] { each.act(scene); });
    CHECK(or_nothing(refused.misuse) == name_of(each.misuse));
    CAPTURE(refused.message);
    CHECK(refused.message.find(each.part) != std::string::npos);
    if (each.after != Commit::refused) return;

    const Refusal later = refusal([&] { scene.commands->commit(); });
    CAPTURE(later.message);
    CHECK(later.misuse.has_value());
    CHECK(later.message.find(each.part) != std::string::npos);  // names the first misuse
    scene.commands->waitUntilCompleted();
    CHECK(scene.commands->status() == MTL::CommandBufferStatusError);
    CHECK(text(scene.commands->error()->localizedDescription()).find(each.part) != std::string::npos);
    CHECK(scene.driver->seen.empty());
}

}  // namespace

TEST_CASE("misuse: every kind is refused by name") {
    std::set<Misuse> committed;
    for (const std::span<const Case> cases :
         {std::span<const Case>(kOutside), std::span<const Case>(kBuffer), std::span<const Case>(kEncoder),
          std::span<const Case>(kDispatch), std::span<const Case>(kBlit)}) {
        for (const Case &each : cases) {
            commit_case(each);
            committed.insert(each.misuse);
        }
    }
#define COMMITTED(name, what) CHECK_MESSAGE(committed.contains(Misuse::name), #name " has no case here");
    QWISP_METAL_MISUSES(COMMITTED)
#undef COMMITTED
}

TEST_CASE("misuse: a refused buffer does not hold up those enqueued behind it") {
    World world;
    auto *const first = world.queue->commandBuffer(), *const second = world.queue->commandBuffer();
    first->enqueue();
    second->enqueue();
    second->commit();
    refusal([&] { first->popDebugGroup(); });
    CHECK(refusal([&] { first->commit(); }).misuse == Misuse::commit_after_misuse);
    second->waitUntilCompleted();
    CHECK(second->status() == MTL::CommandBufferStatusCompleted);
}
