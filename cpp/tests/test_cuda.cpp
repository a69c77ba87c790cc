// What the CUDA driver makes of command buffers: memory, graphs, the queue's order, times.
#include "cuda_fixture.h"

using namespace qwisp::test;

namespace {

// Rotates by one: n remaps rotate by n.
const std::vector<int> kNext = {1, 2, 3, 0}, kStart = {0, 1, 2, 3};
std::vector<int> rotated(int by) {
    std::vector<int> all;
    for (const int each : kStart) all.push_back((each + by) % 4);
    return all;
}

}  // namespace

TEST_CASE("bytes go to private memory and back, and all memory starts as zeros") {
    {
        const CudaWorld world;
        const auto from = world.numbers({1, 2, 3, 4}), to = world.buffer(16), far = world.buffer(16, true);
        CHECK(far->contents() == nullptr);
        CHECK(world.ints(to) == std::vector<int>(4));
        auto *commands = world.queue->commandBuffer();
        auto *blit = commands->blitCommandEncoder();
        blit->copyFromBuffer(far.get(), 0, to.get(), 0, 16);
        blit->endEncoding();
        std::memset(to->contents(), 1, 16);
        CHECK(ran(commands) == "");
        CHECK(world.ints(to) == std::vector<int>(4));
        commands = world.queue->commandBuffer();
        blit = commands->blitCommandEncoder();
        blit->copyFromBuffer(from.get(), 0, far.get(), 0, 16);
        blit->fillBuffer(far.get(), NS::Range(4, 4), 0xff);
        blit->copyFromBuffer(far.get(), 4, to.get(), 0, 12);
        blit->endEncoding();
        CHECK(ran(commands) == "");
        CHECK(world.ints(to) == std::vector<int>{-1, 3, 4, 0});
    }
    CHECK(comes_true([] { return leaked().empty(); }));
    CHECK(fake().contexts_here() == 0);
}

TEST_CASE("memory of the host's is read and written where it is") {
    alignas(4096) static int page[1024] = {3, 2, 1, 0};
    {
        const CudaWorld world;
        const auto wrapped = NS::TransferPtr(
            world.device->newBuffer(page, sizeof page, MTL::ResourceStorageModeShared, nullptr));
        CHECK(fake().live()["registered"] == 1);
        const auto table = world.numbers({7, 6, 5, 4});
        CHECK(ran(world.remaps(world.pipeline("slot_remap_rows"), wrapped, table, 1)) == "");
        CHECK(std::vector<int>(page, page + 4) == std::vector<int>{4, 5, 6, 7});
    }
    CHECK(comes_true([] { return leaked().empty(); }));
}

TEST_CASE("a long command buffer becomes a graph, once") {
    {
        const CudaWorld world;
        const auto remap = world.pipeline("slot_remap_rows");
        const auto inds = world.numbers(kStart), table = world.numbers(kNext);
        for (int i = 1; i <= 3; ++i) {
            CHECK(ran(world.remaps(remap, inds, table, 17)) == "");
            CHECK(world.ints(inds) == rotated(17 * i));
            CHECK(fake().calls("cuGraphInstantiateWithFlags") == 1);
            CHECK(fake().calls("cuGraphLaunch") == i);
        }
        CHECK(fake().live()["graph"] == 0);
        CHECK(ran(world.remaps(remap, inds, table, 18)) == "");
        CHECK(fake().calls("cuGraphInstantiateWithFlags") == 2);
        CHECK(fake().live()["exec"] == 2);
    }
    CHECK(comes_true([] { return leaked().empty(); }));
}

TEST_CASE("a short one becomes a graph at its second sight, and kernels(stream) makes none") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    for (int i = 1; i <= 3; ++i) {
        CHECK(ran(world.remaps(remap, inds, table, 3)) == "");
        CHECK(world.ints(inds) == rotated(3 * i));
        CHECK(fake().calls("cuGraphLaunch") == i - 1);
    }
    CHECK(world.driver->set_kernels("stream"));
    CHECK(ran(world.remaps(remap, inds, table, 30)) == "");
    CHECK(world.ints(inds) == rotated(9 + 30));
    CHECK(fake().calls("cuGraphLaunch") == 2);
}

TEST_CASE("many graphs of one structure: from then on they are updated, and always right") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto table = world.numbers(kNext);
    std::vector<BufferPtr> all;
    const auto run = [&](const BufferPtr &inds) {
        const auto before = world.ints(inds);
        CHECK(ran(world.remaps(remap, inds, table, 17)) == "");
        for (int i = 0; i < 4; ++i) CHECK(world.ints(inds)[i] == (before[i] + 17) % 4);
    };
    for (int i = 0; i < 70; ++i) {
        all.push_back(world.numbers(kStart));
        run(all.back());
    }
    CHECK(fake().calls("cuGraphInstantiateWithFlags") == 64);
    CHECK(fake().calls("cuGraphExecUpdate_v2") == 6);
    CHECK(fake().live()["exec"] == 64);
    run(all[69]);  // as it is
    CHECK(fake().calls("cuGraphExecUpdate_v2") == 6);
    run(all[0]);  // was given up
    CHECK(fake().calls("cuGraphExecUpdate_v2") == 7);
    SUBCASE("an update that CUDA refuses makes a new graph") {
        fake().fail("cuGraphExecUpdate_v2", 1, 910);
        run(all[1]);
        CHECK(fake().calls("cuGraphInstantiateWithFlags") == 65);
        CHECK(fake().live()["exec"] == 64);
    }
    SUBCASE("another structure is a graph of its own") {
        CHECK(ran(world.remaps(remap, all[1], table, 18)) == "");
        CHECK(fake().calls("cuGraphInstantiateWithFlags") == 65);
        CHECK(fake().calls("cuGraphExecUpdate_v2") == 7);
    }
}

TEST_CASE("copies and fills stay out of graphs, whose memory may be gone when they come round again") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto table = world.numbers(kNext);
    for (int i = 1; i <= 3; ++i) {
        const auto inds = world.numbers(kStart), copy = world.buffer(16);  // new ones each time
        auto *const commands = world.remaps(remap, inds, table, 17);
        auto *const blit = commands->blitCommandEncoder();
        for (int k = 0; k < 20; ++k) blit->fillBuffer(copy.get(), NS::Range(0, 16), uint8_t(k));
        blit->copyFromBuffer(inds.get(), 0, copy.get(), 0, 12);
        blit->endEncoding();
        CHECK(ran(commands) == "");
        std::vector<int> wanted = rotated(17);
        wanted[3] = 0x13131313;
        CHECK(world.ints(copy) == wanted);
    }
    CHECK(fake().calls("cuGraphLaunch") == 3);
}

TEST_CASE("graphs are kept up to a number of nodes") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    for (const int times : {60000, 60001, 60002}) CHECK(ran(world.remaps(remap, inds, table, times)) == "");
    CHECK(fake().live()["exec"] == 2);
    CHECK(world.ints(inds) == rotated(60000 + 60001 + 60002));
}

TEST_CASE("times are the device's own") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    fake().hold(true);
    auto *const first = world.remaps(remap, inds, table, 3), *const second =
                                                                 world.remaps(remap, inds, table, 20);
    first->commit();
    second->commit();
    fake().hold(false);
    CHECK(outcome(second) == "");
    CHECK(outcome(first) == "");
    CHECK(first->GPUEndTime() - first->GPUStartTime() == doctest::Approx(3e-3).epsilon(1e-4));
    CHECK(second->GPUEndTime() - second->GPUStartTime() == doctest::Approx(20e-3).epsilon(1e-4));
    CHECK(second->GPUStartTime() >= first->GPUEndTime());
}

TEST_CASE("several command buffers are in flight, in order") {
    {
        const CudaWorld world;
        const auto remap = world.pipeline("slot_remap_rows");
        const auto a = world.numbers(kStart), b = world.numbers({3, 3, 3, 3}), table = world.numbers(kNext);
        fake().hold(true);
        std::vector<MTL::CommandBuffer *> all;
        std::atomic<int> handled = 0;
        std::atomic<int> *const count = &handled;
        const auto copy = [&](const BufferPtr &from, const BufferPtr &to) {
            auto *const commands = world.queue->commandBuffer();
            auto *const blit = commands->blitCommandEncoder();
            blit->copyFromBuffer(from.get(), 0, to.get(), 0, 16);
            blit->endEncoding();
            return commands;
        };
        all.push_back(world.remaps(remap, a, table, 1));
        all.push_back(copy(a, b));
        all.push_back(world.remaps(remap, b, table, 2));
        all[1]->addCompletedHandler(TEST_BLOCK(MTL::CommandBuffer *) { ++*count; });
        for (auto *const each : all) each->commit();
        CHECK(fake().calls("cuLaunchKernelEx") == 3);
        CHECK(fake().calls("cuMemcpyAsync") == 1);
        CHECK(fake().executed().empty());
        CHECK(all[0]->status() < MTL::CommandBufferStatusCompleted);
        fake().hold(false);
        for (auto *const each : all) CHECK(outcome(each) == "");
        CHECK(world.ints(a) == rotated(1));
        CHECK(world.ints(b) == rotated(3));
        CHECK(handled == 1);
    }
    CHECK(comes_true([] { return leaked().empty(); }));
}

TEST_CASE("what waits for an event holds up what is behind it") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    const auto event = NS::TransferPtr(world.device->newSharedEvent());
    auto *const first = world.remaps(remap, inds, table, 1), *const waits = world.queue->commandBuffer(),
                *const behind = world.remaps(remap, inds, table, 1),
                *const last = world.remaps(remap, inds, table, 1);
    waits->encodeWait(event.get(), 1);
    world.encode(waits, remap, inds, table, 1);
    for (auto *const each : {first, waits, behind}) each->commit();
    CHECK(outcome(first) == "");
    CHECK(comes_true([&] { return waits->status() == MTL::CommandBufferStatusScheduled; }));
    last->commit();
    CHECK(fake().calls("cuLaunchKernelEx") == 1);
    CHECK(world.ints(inds) == rotated(1));
    event->setSignaledValue(1);
    CHECK(outcome(last) == "");
    CHECK(outcome(waits) == "");
    CHECK(world.ints(inds) == rotated(4));
}

TEST_CASE("threads that commit to one queue at once") {
    {
        const CudaWorld world;
        const auto remap = world.pipeline("slot_remap_rows");
        const auto inds = world.numbers(kStart), table = world.numbers(kNext);
        constexpr int kThreads = 4, kEach = 100;
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
                for (int i = 0; i < kEach; ++i) {
                    const Pool inner;
                    auto *const commands = world.remaps(remap, inds, table, 1 + 16 * (i % 2));
                    commands->commit();
                    if ((i + t) % 3) commands->waitUntilCompleted();
                }
            });
        }
        for (std::thread &each : threads) each.join();
        CHECK(ran(world.queue->commandBuffer()) == "");
        CHECK(world.ints(inds) == rotated(kThreads * kEach * 9));
        CHECK(fake().executed().size() == kThreads * kEach * 9);
    }
    CHECK(comes_true([] { return leaked().empty(); }));
}

TEST_CASE("a buffer that is released in flight lives until the device is done with it") {
    {
        const CudaWorld world;
        const auto remap = world.pipeline("slot_remap_rows");
        const auto inds = world.numbers(kStart);
        fake().hold(true);
        MTL::CommandBuffer *commands = nullptr;
        {
            const auto table = world.numbers(kNext);
            commands = world.remaps(remap, inds, table, 1);
            commands->commit();
        }
        CHECK(fake().live()["host"] == 2);
        fake().hold(false);
        CHECK(outcome(commands) == "");
        CHECK(world.ints(inds) == rotated(1));
        CHECK(comes_true([] { return fake().live()["host"] == 1; }));
    }
    CHECK(comes_true([] { return leaked().empty(); }));
}

TEST_CASE("a kernel that awaits the one before may start early, the first of a command buffer never") {
    const CudaWorld world;
    std::string text = own_text();
    const size_t body = text.find('{', text.find("\nQWISP_KERNEL(slot_remap_rows)"));
    if (!contains(text.substr(body, 400), "QWISP_LET_NEXT_START();"))
        text.insert(body + 1, "QWISP_LET_NEXT_START(); QWISP_AWAIT_PREVIOUS();");
    const auto remap = world.pipeline("slot_remap_rows", text);
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    const auto overlapping = [&](const char *kernels) {
        CHECK(world.driver->set_kernels(kernels));
        const size_t before = fake().executed().size();
        CHECK(ran(world.remaps(remap, inds, table, 20)) == "");
        std::vector<bool> all;
        for (size_t i = before; i < fake().executed().size(); ++i)
            all.push_back(fake().executed()[i].overlaps);
        return all;
    };
    std::vector<bool> expected(20, true);
    expected[0] = false;
    CHECK(overlapping("dependent") == expected);
    CHECK(overlapping("graph") == std::vector<bool>(20));
    CHECK(overlapping("stream") == std::vector<bool>(20));
}

TEST_CASE("a driver that is too old for that uses plain graphs") {
    const CudaWorld world;
    CHECK(world.driver->kernels() == "dependent");
    fake().set_version(12020);
    const CudaDriver older(world.gpu);
    CHECK(older.kernels() == "graph");
    CHECK(older.kernel_names() == std::vector<std::string_view>{"graph", "stream"});
}

TEST_CASE("a capture of somebody else's in this process goes on undisturbed") {
    {
        const CudaWorld world;
        fake().capture_elsewhere(true);
        const auto remap = world.pipeline("slot_remap_rows");
        const auto inds = world.numbers(kStart), table = world.numbers(kNext), far = world.buffer(64, true);
        CHECK(ran(world.remaps(remap, inds, table, 20)) == "");
        CHECK(world.ints(inds) == rotated(20));
    }
    CHECK(comes_true([] { return leaked().empty(); }));
    CHECK_FALSE(fake().broke_capture());
    CHECK(fake().capture_mode_here() == 0);
}
