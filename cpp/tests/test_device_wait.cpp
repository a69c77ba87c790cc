// Who runs a command buffer: the thread that waits for it, or the queue's own. Nothing that a host can see
// but the time depends on it: order, errors, handlers, events, forks.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <thread>

#include "fake_driver.h"

using namespace qwisp::test;

namespace {

constexpr unsigned kPatience = 30;  // seconds

// After this the queue expects that whoever commits waits.
void wait_for_some(const World &world) {
    for (int i = 0; i < 20; ++i) {
        auto *const commands = scaled(world, world.x, world.x, 1);
        commands->commit();
        commands->waitUntilCompleted();
    }
}

bool completes_alone(const MTL::CommandBuffer *commands) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience);
    while (commands->status() < MTL::CommandBufferStatusCompleted) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return commands->status() == MTL::CommandBufferStatusCompleted;
}

}  // namespace

TEST_CASE("wait: what nobody waits for runs all the same") {
    World world;
    for (int round = 0; round < 3; ++round) {
        wait_for_some(world);
        for (int count : {1, 3, 1}) {
            std::vector<MTL::CommandBuffer *> all;
            for (int i = 0; i < count; ++i) {
                all.push_back(scaled(world, world.x, world.y, float(i)));
                all.back()->commit();
            }
            for (const auto *const commands : all) CHECK(completes_alone(commands));
        }
    }
}

TEST_CASE("wait: what nobody waits for runs after a long rest, too") {
    World world;
    wait_for_some(world);
    std::this_thread::sleep_for(std::chrono::milliseconds(250));  // the thread naps no more
    auto *const commands = scaled(world, world.x, world.y, 1);
    commands->commit();
    CHECK(completes_alone(commands));
}

TEST_CASE("wait: what nobody waits for runs behind a long wait of another thread") {
    World world;
    wait_for_some(world);
    auto *const running = world.queue->commandBuffer(), *const behind = scaled(world, world.x, world.y, 1);
    world.encode_block(running);
    std::thread waiter = wait_elsewhere(running);
    behind->commit();
    std::this_thread::sleep_for(std::chrono::milliseconds(250));  // the thread naps no more
    world.driver->open();
    waiter.join();
    CHECK(completes_alone(behind));
}

TEST_CASE("wait: for the last of several, and then for the others, keeps their order") {
    World world;
    for (int round = 0; round < 100; ++round) {
        const Pool pool;
        floats(world.x)[0] = 1;
        floats(world.y)[0] = floats(world.z)[0] = 0;
        auto *const first = scaled(world, world.x, world.y, 3);
        auto *const second = scaled(world, world.y, world.z, 5);
        auto *const third = scaled(world, world.z, world.x, 7);
        if (round % 2) first->enqueue();
        if (round % 2) second->enqueue();
        first->commit();
        second->commit();
        third->commit();
        third->waitUntilCompleted();
        CHECK(first->status() == MTL::CommandBufferStatusCompleted);
        CHECK(second->status() == MTL::CommandBufferStatusCompleted);
        second->waitUntilCompleted();
        first->waitUntilCompleted();
        CHECK(floats(world.x)[0] == 105.0f);
    }
}

TEST_CASE("wait: several threads, for their own buffer and for one that all know") {
    World world;
    constexpr int kThreads = 4, kRounds = 100;
    for (int round = 0; round < kRounds; ++round) {
        const Pool pool;
        floats(world.x)[0] = 2;
        auto *const common = scaled(world, world.x, world.y, 2);
        std::vector<std::thread> threads;
        std::atomic<int> right = 0;
        common->commit();
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&] {
                const Pool inner;
                const BufferPtr to = world.buffer(16, "to");
                auto *const own = scaled(world, world.y, to, 3);
                own->commit();
                own->waitUntilCompleted();
                right += floats(to)[0] == 12.0f;
                common->waitUntilCompleted();
                right += common->status() == MTL::CommandBufferStatusCompleted;
            });
        }
        common->waitUntilCompleted();
        CHECK(floats(world.y)[0] == 4.0f);
        for (std::thread &thread : threads) thread.join();
        CHECK(right == 2 * kThreads);
    }
}

TEST_CASE("wait: buffers with handlers or events are left to the queue's thread") {
    World world;
    const auto event = NS::TransferPtr(world.device->newSharedEvent());
    for (int i = 1; i <= 20; ++i) {
        const Pool pool;
        for (const bool handled : {true, false}) {
            auto *const commands = scaled(world, world.x, world.y, 1);
            if (handled) {
                commands->addCompletedHandler(MTL::HandlerFunction([](MTL::CommandBuffer *) {}));
            } else {
                commands->encodeSignalEvent(event.get(), uint64_t(i));
            }
            commands->commit();
            commands->waitUntilCompleted();
        }
    }
    CHECK(event->signaledValue() == 20);
    CHECK(world.driver->threads.size() == 1);
    CHECK(world.driver->threads.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("wait: behind a buffer that only the queue's thread runs") {
    World world;
    for (int i = 0; i < 20; ++i) {
        const Pool pool;
        wait_for_some(world);
        floats(world.x)[0] = 1;
        floats(world.z)[0] = 0;
        int handled = 0;
        auto *const first = scaled(world, world.x, world.y, 3), *const second =
                                                                    scaled(world, world.y, world.z, 5);
        first->addCompletedHandler(MTL::HandlerFunction([&](MTL::CommandBuffer *) { ++handled; }));
        first->commit();
        second->commit();
        if (i % 2) second->waitUntilScheduled();
        second->waitUntilCompleted();
        CHECK(handled == 1);
        CHECK(floats(world.z)[0] == 15.0f);
    }
}

TEST_CASE("wait: a handler commits to its queue and waits for another") {
    World world;
    const auto other = NS::TransferPtr(world.device->newCommandQueue());
    for (int i = 0; i < 20; ++i) {
        const Pool pool;
        wait_for_some(world);
        floats(world.x)[0] = 1;
        auto *const there = other->commandBuffer(), *const next = scaled(world, world.y, world.z, 7);
        auto *const encoder = there->computeCommandEncoder();
        world.encode_scale(encoder, world.x, world.y, 2);
        encoder->endEncoding();
        auto *const first = scaled(world, world.x, world.z, 0);
        Refusal own;
        first->addCompletedHandler(MTL::HandlerFunction([&](MTL::CommandBuffer *) {
            there->commit();
            there->waitUntilCompleted();
            next->commit();
            own = refusal([&] { next->waitUntilCompleted(); });
        }));
        first->commit();
        first->waitUntilCompleted();
        next->waitUntilCompleted();
        CHECK(own.misuse == Misuse::wait_in_handler);
        CHECK(floats(world.z)[0] == 14.0f);
    }
}

TEST_CASE("wait: memory that is given back inside a wait finds the queue busy, not asleep") {
    World world;
    const auto page = size_t(sysconf(_SC_PAGESIZE));
    for (int i = 0; i < 20; ++i) {
        const Pool pool;
        wait_for_some(world);
        auto *const bytes = std::aligned_alloc(page, page);
        auto *const later = scaled(world, world.x, world.y, 1);
        later->commit();
        later->waitUntilCompleted();
        auto *const behind = scaled(world, world.x, world.y, 2);
        std::optional<Misuse> misuse;
        std::optional<Misuse> *const where = &misuse;
        auto wrapped = NS::TransferPtr(world.device->newBuffer(
            bytes, page, MTL::ResourceStorageModeShared, TEST_BLOCK(void *memory, NS::UInteger) {
                behind->commit();
                *where = refusal([&] { behind->waitUntilCompleted(); }).misuse;
                std::free(memory);
            }));
        auto *const commands = scaled(world, world.x, wrapped, 2);
        wrapped.reset();
        commands->commit();
        commands->waitUntilCompleted();
        behind->waitUntilCompleted();
        CHECK(misuse == Misuse::wait_in_handler);
        CHECK(behind->status() == MTL::CommandBufferStatusCompleted);
    }
}

TEST_CASE("wait: an error stays with its buffer, whoever runs it") {
    World world;
    for (int i = 0; i < 20; ++i) {
        const Pool pool;
        wait_for_some(world);
        auto *const bad = world.queue->commandBuffer();
        auto *const encoder = bad->computeCommandEncoder();
        encoder->setComputePipelineState(world.pipeline("fault").get());
        encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(1, 1, 1));
        encoder->endEncoding();
        auto *const good = scaled(world, world.x, world.y, 1);
        bad->commit();
        good->commit();
        (i % 2 ? bad : good)->waitUntilCompleted();
        good->waitUntilCompleted();
        CHECK(bad->status() == MTL::CommandBufferStatusError);
        CHECK(text(bad->error()->localizedDescription()) ==
              "command buffer: kernel fault: x[7] is beyond the end");
        CHECK(good->status() == MTL::CommandBufferStatusCompleted);
    }
}

TEST_CASE("wait: the host's rounding is not the kernels'") {
    World world;
    std::fesetround(FE_UPWARD);
    floats(world.x)[0] = 0x1p-30f;
    floats(world.y)[0] = 1;
    auto *const commands = world.queue->commandBuffer();
    auto *const encoder = commands->computeCommandEncoder();
    world.encode_add(encoder, world.x, world.y);
    encoder->endEncoding();
    commands->commit();
    commands->waitUntilCompleted();
    CHECK(std::fegetround() == FE_UPWARD);
    std::fesetround(FE_TONEAREST);
    CHECK(floats(world.y)[0] == 1.0f);
}
