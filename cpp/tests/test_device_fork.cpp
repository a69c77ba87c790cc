// fork() and exit() with work in flight: nothing hangs, nothing crashes.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "child.h"
#include "fake_driver.h"

using namespace qwisp::test;

// LeakSanitizer cannot stop a thread that is working when the process exits, and then calls its memory
// leaked.
static std::atomic<bool> exits_at_work = false;
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return exits_at_work; }

namespace {

// 0: a scale committed to `queue` works.
int scale_works(const World &world, MTL::CommandQueue *queue) {
    const Pool pool;
    const BufferPtr from = world.buffer(16, "from"), to = world.buffer(16, "to");
    floats(from)[0] = 2;
    auto *const commands = queue->commandBuffer();
    auto *const encoder = commands->computeCommandEncoder();
    world.encode_scale(encoder, from, to, 3);
    encoder->endEncoding();
    commands->commit();
    commands->waitUntilCompleted();
    return floats(to)[0] == 6.0f ? 0 : 1;
}

bool lost(const MTL::CommandBuffer *commands) {
    const std::string message = "the process forked while this command buffer was in flight";
    return commands->status() == MTL::CommandBufferStatusError &&
           text(commands->error()->localizedDescription()).find(message) != std::string::npos;
}

}  // namespace

TEST_CASE("fork: buffers in flight end in the child, the queue goes on") {
    World world;
    auto *const running = world.queue->commandBuffer(), *const waiting = world.queue->commandBuffer();
    world.encode_block(running);
    running->setLabel(string("running"));
    running->commit();
    running->waitUntilScheduled();
    std::atomic<int> handled = 0;
    waiting->addCompletedHandler(MTL::HandlerFunction([&](MTL::CommandBuffer *) { ++handled; }));
    waiting->commit();
    auto *const encoded = world.queue->commandBuffer();
    auto *const encoder = encoded->computeCommandEncoder();
    floats(world.x)[0] = 5;
    world.encode_scale(encoder, world.x, world.y, 2);
    encoder->endEncoding();

    const std::string outcome = in_child([&] {
        running->waitUntilCompleted();
        waiting->waitUntilCompleted();
        waiting->waitUntilScheduled();
        if (!lost(running) || !lost(waiting)) return 10;
        if (text(running->error()->localizedDescription()).find("'running'") == std::string::npos) return 11;
        if (scale_works(world, world.queue.get()) != 0) return 12;
        encoded->commit();
        encoded->waitUntilCompleted();
        if (encoded->status() != MTL::CommandBufferStatusCompleted || floats(world.y)[0] != 10.0f) return 13;
        const auto fresh = NS::TransferPtr(world.device->newCommandQueue());
        if (scale_works(world, fresh.get()) != 0) return 14;
        return handled.load();
    });
    CHECK(outcome == "exit 0");

    world.driver->open();
    waiting->waitUntilCompleted();
    CHECK(running->status() == MTL::CommandBufferStatusCompleted);
    CHECK(handled == 1);
    CHECK(floats(world.y)[0] == 0.0f);
}

TEST_CASE("fork: of a full queue") {
    World world;
    const auto queue = NS::TransferPtr(world.device->newCommandQueue(1));
    auto *const running = queue->commandBuffer();
    world.encode_block(running);
    running->commit();
    CHECK(in_child([&] { return scale_works(world, queue.get()); }) == "exit 0");
    world.driver->open();
    running->waitUntilCompleted();
}

TEST_CASE("fork: while an event is awaited") {
    World world;
    const auto event = NS::TransferPtr(world.device->newSharedEvent());
    auto *const waiting = world.queue->commandBuffer();
    waiting->encodeWait(event.get(), 1);
    waiting->commit();
    waiting->waitUntilScheduled();
    CHECK(in_child([&] {
              event->setSignaledValue(1);
              waiting->waitUntilCompleted();
              return lost(waiting) ? scale_works(world, world.queue.get()) : 10;
          }) == "exit 0");
    event->setSignaledValue(1);
    waiting->waitUntilCompleted();
    CHECK(waiting->status() == MTL::CommandBufferStatusCompleted);
}

TEST_CASE("fork: between commit and wait") {
    World world;
    for (int i = 0; i < 20; ++i) REQUIRE(scale_works(world, world.queue.get()) == 0);
    const auto event = NS::TransferPtr(world.device->newSharedEvent());
    auto *const before = world.queue->commandBuffer(), *const commands = world.queue->commandBuffer();
    before->encodeWait(event.get(), 1);
    before->commit();
    auto *const encoder = commands->computeCommandEncoder();
    world.encode_scale(encoder, world.x, world.y, 2);
    encoder->endEncoding();
    floats(world.x)[0] = 3;
    commands->commit();
    CHECK(in_child([&] {
              commands->waitUntilCompleted();
              return lost(commands) ? scale_works(world, world.queue.get()) : 10;
          }) == "exit 0");
    event->setSignaledValue(1);
    commands->waitUntilCompleted();
    CHECK(floats(world.y)[0] == 6.0f);
}

// The thread sanitizer: as below.
TEST_CASE("fork: while a thread runs what it waits for" * doctest::skip(QWISP_SANITIZED)) {
    World world;
    for (int i = 0; i < 20; ++i) REQUIRE(scale_works(world, world.queue.get()) == 0);
    auto *const running = world.queue->commandBuffer();
    world.encode_block(running);
    std::thread waiter = wait_elsewhere(running);
    CHECK(in_child([&] {
              running->waitUntilCompleted();
              return lost(running) ? scale_works(world, world.queue.get()) : 10;
          }) == "exit 0");
    world.driver->open();
    waiter.join();
    CHECK(running->status() == MTL::CommandBufferStatusCompleted);
}

TEST_CASE("fork: from a handler") {
    World world;
    auto *const commands = world.queue->commandBuffer();
    std::string outcome;
    commands->addCompletedHandler(MTL::HandlerFunction([&](MTL::CommandBuffer *buffer) {
        const auto other = NS::TransferPtr(world.device->newCommandQueue());
        outcome = in_child([&] {
            return buffer->status() == MTL::CommandBufferStatusCompleted ? scale_works(world, other.get())
                                                                         : 10;
        });
    }));
    commands->commit();
    commands->waitUntilCompleted();
    CHECK(outcome == "exit 0");
}

// The thread sanitizer gives up when the child reuses the id of a thread of the parent.
// The sanitizers' own allocators keep their locks over a fork.
TEST_CASE("fork: while other threads commit" * doctest::skip(QWISP_SANITIZED)) {
    World world;
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&] {
            while (!stop) scale_works(world, world.queue.get());
        });
    }
    std::set<std::string> outcomes;
    for (int i = 0; i < 10; ++i) {
        outcomes.insert(in_child([&] { return scale_works(world, world.queue.get()); }));
    }
    stop = true;
    for (std::thread &thread : threads) thread.join();
    CHECK(outcomes == std::set<std::string>{"exit 0"});
}

TEST_CASE("exit: with work in flight") {
    World world;
    CHECK(in_child([&] {
              const Pool pool;
              auto *const running = world.queue->commandBuffer(), *const waiting =
                                                                      world.queue->commandBuffer();
              world.encode_block(running);
              running->commit();
              waiting->commit();
              running->waitUntilScheduled();
              exits_at_work = true;
              std::exit(0);
              return 1;
          }) == "exit 0");
}
