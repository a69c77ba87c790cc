// Command buffers on their way through queues: order, handlers, faults, lifetimes, threads, events.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "fake_driver.h"
#include "metal_runtime/device/testing.h"

using namespace qwisp::test;

namespace {

using Handler = MTL::HandlerFunction;

MTL::CommandBuffer *faulty(const World &world) {
    auto *const commands = world.queue->commandBuffer();
    auto *const encoder = commands->computeCommandEncoder();
    encoder->setComputePipelineState(world.pipeline("fault").get());
    encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(1, 1, 1));
    encoder->endEncoding();
    return commands;
}

}  // namespace

TEST_CASE("queue: status and times on the way") {
    World world;
    auto *const blocked = world.queue->commandBuffer();
    world.encode_block(blocked);
    CHECK(blocked->status() == MTL::CommandBufferStatusNotEnqueued);
    blocked->enqueue();
    CHECK(blocked->status() == MTL::CommandBufferStatusEnqueued);
    blocked->commit();
    blocked->waitUntilScheduled();
    CHECK(blocked->status() == MTL::CommandBufferStatusScheduled);
    CHECK(blocked->GPUStartTime() == 0.0);
    auto *const behind = scaled(world, world.x, world.y, 1);
    behind->commit();
    CHECK(behind->status() == MTL::CommandBufferStatusCommitted);
    world.driver->open();
    behind->waitUntilCompleted();
    CHECK(blocked->status() == MTL::CommandBufferStatusCompleted);
    CHECK(blocked->error() == nullptr);
    CHECK(blocked->GPUStartTime() > 0.0);
    CHECK(blocked->kernelStartTime() <= blocked->kernelEndTime());
    CHECK(blocked->kernelEndTime() <= blocked->GPUStartTime());
    CHECK(blocked->GPUStartTime() < blocked->GPUEndTime());
    CHECK(blocked->GPUEndTime() <= behind->GPUStartTime());
    CHECK(blocked->commandQueue() == world.queue.get());
    CHECK(blocked->device() == world.device.get());
}

TEST_CASE("queue: commit order is execution order, and enqueue order goes before it") {
    World world;
    floats(world.x)[0] = 1;
    auto *const first = scaled(world, world.x, world.y, 3), *const second =
                                                                scaled(world, world.y, world.z, 5);
    first->enqueue();
    second->commit();
    CHECK(second->status() == MTL::CommandBufferStatusCommitted);
    first->commit();
    second->waitUntilCompleted();
    CHECK(floats(world.z)[0] == 15.0f);
}

TEST_CASE("queue: an enqueued buffer that is never committed is passed over") {
    World world;
    auto *const behind = scaled(world, world.x, world.y, 1)->retain();
    {
        const Pool pool;
        world.queue->commandBuffer()->enqueue();
        behind->commit();
    }
    behind->waitUntilCompleted();
    CHECK(behind->status() == MTL::CommandBufferStatusCompleted);
    behind->release();
}

TEST_CASE("handlers: run on the queue's thread, in order, before waitUntilCompleted returns") {
    World world;
    std::vector<std::string> log;  // written by one thread, read after it is done
    auto *const commands = scaled(world, world.x, world.y, 1);
    commands->setLabel(string("step"));
    const auto here = std::this_thread::get_id();
    const auto note = [&](const char *what) {
        return Handler([&, what](MTL::CommandBuffer *buffer) {
            string("autoreleased in the handler");
            log.push_back(what + std::to_string(buffer->status()) + text(buffer->label()) +
                          (std::this_thread::get_id() == here ? " here" : ""));
        });
    };
    commands->addScheduledHandler(note("scheduled "));
    commands->addCompletedHandler(note("first "));
    commands->addCompletedHandler(note("second "));
    commands->addCompletedHandler(Handler([](MTL::CommandBuffer *buffer) { buffer->waitUntilCompleted(); }));
    commands->commit();
    commands->waitUntilCompleted();
    CHECK(log == std::vector<std::string>{"scheduled 3step", "first 4step", "second 4step"});
}

TEST_CASE("handlers: may commit more work") {
    World world;
    floats(world.x)[0] = 1;
    auto *const second = scaled(world, world.x, world.y, 7);
    auto *const first = world.queue->commandBuffer();
    first->addCompletedHandler(Handler([second](MTL::CommandBuffer *) { second->commit(); }));
    first->commit();
    first->waitUntilCompleted();
    second->waitUntilCompleted();
    CHECK(floats(world.y)[0] == 7.0f);
}

TEST_CASE("fault: ends its own buffer with an error, later ones run") {
    World world;
    auto *const bad = faulty(world);
    bad->setLabel(string("bad"));
    std::atomic<int> status = 0;
    bad->addCompletedHandler(Handler([&](MTL::CommandBuffer *buffer) { status = int(buffer->status()); }));
    auto *const good = scaled(world, world.x, world.y, 1);
    bad->commit();
    good->commit();
    good->waitUntilCompleted();
    CHECK(good->status() == MTL::CommandBufferStatusCompleted);
    CHECK(bad->status() == MTL::CommandBufferStatusError);
    CHECK(status == MTL::CommandBufferStatusError);
    CHECK(text(bad->error()->localizedDescription()) ==
          "command buffer 'bad': kernel fault: x[7] is beyond the end");
    CHECK(text(bad->error()->domain()) == "MTLCommandBufferErrorDomain");
    CHECK(bad->error()->code() == MTL::CommandBufferErrorPageFault);
}

TEST_CASE("lifetime: everything may be released right after commit") {
    const Pool outer;
    const auto page = size_t(sysconf(_SC_PAGESIZE));
    auto *const bytes =
        static_cast<float *>(mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::atomic<float> seen = 0;
    std::atomic<float> *const where = &seen;
    NS::SharedPtr<MTL::CommandBuffer> last;
    std::shared_ptr<FakeDriver> driver;
    {
        World world;
        driver = world.driver;
        floats(world.x)[0] = 4;
        const auto wrapped = NS::TransferPtr(world.device->newBuffer(
            bytes, page, MTL::ResourceStorageModeShared,
            TEST_BLOCK(void *memory, NS::UInteger) { *where = *static_cast<float *>(memory); }));
        auto *const blocked = world.queue->commandBuffer();
        world.encode_block(blocked);
        blocked->commit();
        last = NS::RetainPtr(scaled(world, world.x, wrapped, 2));
        last->commit();
    }
    CHECK(seen == 0.0f);
    driver->open();
    last->waitUntilCompleted();
    CHECK(seen == 8.0f);  // the memory was given back only after the kernel wrote it
    munmap(bytes, page);
}

TEST_CASE("lifetime: a buffer that unretained references need longer is an error, not a crash") {
    World world;
    for (const bool early : {false, true}) {
        auto target = world.buffer(64, "target");
        auto *const commands = world.queue->commandBufferWithUnretainedReferences();
        CHECK_FALSE(commands->retainedReferences());
        auto *const encoder = commands->computeCommandEncoder();
        world.encode_scale(encoder, world.x, target, 1);
        encoder->endEncoding();
        if (early) target.reset();
        commands->commit();
        commands->waitUntilCompleted();
        CHECK(bool(commands->error()) == early);
        if (early) {
            CHECK(text(commands->error()->localizedDescription())
                      .find("buffer 'target' (64 bytes) was released") != std::string::npos);
        }
    }
}

TEST_CASE("lifetime: queues come and go with work in flight") {
    const Pool outer;
    for (int i = 0; i < 50; ++i) {
        World world;
        world.driver->open();
        auto *const commands = world.queue->commandBuffer();
        world.encode_block(commands);
        commands->commit();
        if (i % 2) commands->waitUntilCompleted();
    }
}

TEST_CASE("queue: a full one makes room when a buffer completes") {
    World world;
    const auto queue = NS::TransferPtr(world.device->newCommandQueue(2));
    for (int i = 0; i < 20; ++i) {
        auto *const commands = queue->commandBuffer();
        auto *const encoder = commands->computeCommandEncoder();
        world.encode_scale(encoder, world.x, world.y, 1);
        encoder->endEncoding();
        commands->commit();
    }
    {
        const Pool pool;
        queue->commandBuffer();  // released uncommitted: makes room as well
    }
    queue->commandBuffer();
    const auto third = refusal([&] {
        auto *const commands = queue->commandBuffer();
        commands->addCompletedHandler(Handler([&](MTL::CommandBuffer *) { queue->commandBuffer(); }));
    });
    CHECK_FALSE(third.misuse);
}

TEST_CASE("threads: many commit to one queue, none loses its wake-up") {
    World world;
    constexpr int kThreads = 4, kBuffers = 200;
    std::atomic<int> completed = 0, right = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            const Pool pool;
            const BufferPtr from = world.buffer(16, "from"), to = world.buffer(16, "to");
            for (int i = 0; i < kBuffers; ++i) {
                const Pool inner;
                floats(from)[0] = float(i);
                auto *const commands = scaled(world, from, to, float(t));
                commands->addCompletedHandler(Handler([&](MTL::CommandBuffer *) { ++completed; }));
                commands->commit();
                commands->waitUntilCompleted();
                right += floats(to)[0] == float(i * t);
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    CHECK(completed == kThreads * kBuffers);
    CHECK(right == kThreads * kBuffers);
}

TEST_CASE("threads: several wait for one buffer, labels change meanwhile") {
    World world;
    auto *const commands = world.queue->commandBuffer();
    world.encode_block(commands);
    commands->commit();
    std::vector<std::thread> threads;
    std::atomic<int> done = 0;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            const Pool pool;
            for (int i = 0; i < 100; ++i) world.x->setLabel(string(i % 2 ? "odd" : "even"));
            commands->waitUntilCompleted();
            done += commands->status() == MTL::CommandBufferStatusCompleted;
        });
    }
    world.driver->open();
    for (std::thread &thread : threads) thread.join();
    CHECK(done == 4);
}

TEST_CASE("events: order two queues, and the host") {
    World world;
    const auto other = NS::TransferPtr(world.device->newCommandQueue());
    const auto event = NS::TransferPtr(world.device->newSharedEvent());
    floats(world.x)[0] = 1;
    auto *const waiting = other->commandBuffer();
    waiting->encodeWait(event.get(), 2);
    auto *const encoder = waiting->computeCommandEncoder();
    world.encode_scale(encoder, world.y, world.z, 2);
    encoder->endEncoding();
    waiting->encodeSignalEvent(event.get(), 3);
    waiting->commit();
    auto *const first = scaled(world, world.x, world.y, 10);
    first->encodeSignalEvent(event.get(), 1);
    first->commit();
    first->waitUntilCompleted();
    CHECK(event->waitUntilSignaledValue(1, 1000));
    CHECK_FALSE(event->waitUntilSignaledValue(3, 5));
    event->setSignaledValue(2);
    CHECK(event->waitUntilSignaledValue(3, UINT64_MAX));
    waiting->waitUntilCompleted();
    CHECK(floats(world.z)[0] == 20.0f);
    CHECK(event->signaledValue() == 3);
}

TEST_CASE("events: a faulty buffer still signals") {
    World world;
    const auto event = NS::TransferPtr(world.device->newSharedEvent());
    auto *const bad = faulty(world);
    bad->encodeSignalEvent(event.get(), 1);
    bad->commit();
    CHECK(event->waitUntilSignaledValue(1, 5000));
    bad->waitUntilCompleted();
    CHECK(bad->status() == MTL::CommandBufferStatusError);
}
