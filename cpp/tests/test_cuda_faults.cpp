// What the CUDA driver makes of failures: of calls, of kernels, of memory, of a fork.
#include <atomic>

#include "child.h"
#include "cuda_fixture.h"

using namespace qwisp::test;

namespace {

const std::vector<int> kNext = {1, 2, 3, 0}, kStart = {0, 1, 2, 3};
const char *const kFault = "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered";
const char *const kLost = "the CUDA device is lost to this process";

}  // namespace

TEST_CASE("a fault is its command buffer's error, and later ones say that the device is lost") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    CHECK(ran(world.remaps(remap, inds, table, 2)) == "");
    fake().fault(2, 700);
    auto *const commands = world.remaps(remap, inds, table, 20);
    const std::string message = ran(commands);
    CHECK(contains(message, kFault));
    CHECK_FALSE(contains(message, kLost));
    CHECK_FALSE(contains(message, "behind this one"));
    CHECK(commands->status() == MTL::CommandBufferStatusError);
    for (const int times : {1, 20}) {
        const std::string later = ran(world.remaps(remap, inds, table, times));
        CHECK(contains(later, kLost));
        CHECK(contains(later, kFault));
    }
    CHECK(world.buffer(16, true).get() == nullptr);
    CHECK(world.buffer(16).get() == nullptr);
    std::string why;
    CHECK(world.pipeline("qmm8_rows", own_text(), &why).get() == nullptr);
    CHECK(contains(why, kLost));
    CHECK(fake().contexts_here() == 0);

    SUBCASE("another device still works") {
        const CudaWorld other(1, true);
        const auto there = other.pipeline("slot_remap_rows");
        const auto a = other.numbers(kStart), b = other.numbers(kNext);
        CHECK(ran(other.remaps(there, a, b, 20)) == "");
        CHECK(other.ints(a) == kStart);
    }
}

TEST_CASE("a kernel that runs too long is its command buffer's error, and the device is lost") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    fake().fault(2, 702);  // launch timeout
    CHECK(contains(ran(world.remaps(remap, inds, table, 3)), "(702)"));
    CHECK(contains(ran(world.remaps(remap, inds, table, 1)), kLost));
}

TEST_CASE("a fault with several command buffers in flight: each ends, with an error") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    fake().hold(true);
    std::vector<MTL::CommandBuffer *> all;
    std::atomic<int> handled = 0;
    std::atomic<int> *const count = &handled;
    for (int i = 0; i < 5; ++i) {
        all.push_back(world.remaps(remap, inds, table, 1 + 20 * (i % 2)));
        all[i]->addCompletedHandler(TEST_BLOCK(MTL::CommandBuffer *) { ++*count; });
        all[i]->commit();
    }
    fake().fault(2, 700);  // in the second
    fake().hold(false);
    for (int i = 0; i < 5; ++i) {
        const std::string message = outcome(all[i]);
        if (i == 0) {
            CHECK(message == "");
        } else {
            CHECK(contains(message, kFault));
            CHECK(contains(message, kLost) == (i > 1));
            CHECK(contains(message, "or in one of the 3 command buffers behind this one") == (i == 1));
        }
    }
    CHECK(comes_true([&] { return handled == 5; }));
}

TEST_CASE("a fault while threads commit: each command buffer ends, and what ended well stays well") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    constexpr int kThreads = 4, kEach = 50, kGood = 120;
    fake().fault(kGood + 1, 700);
    std::atomic<int> well = 0, first = 0, lost = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < kEach; i += 2) {
                const Pool inner;
                auto *const one = world.remaps(remap, inds, table, 1), *const two = world.remaps(remap, inds,
                                                                                                 table, 1);
                one->commit();
                two->commit();
                for (auto *const each : {t % 2 ? one : two, t % 2 ? two : one}) {
                    const std::string error = outcome(each);
                    ++(error.empty() ? well : contains(error, kLost) ? lost : first);
                }
            }
        });
    }
    for (std::thread &each : threads) each.join();
    CHECK(well == kGood);
    CHECK(first >= 1);
    CHECK(well + first + lost == kThreads * kEach);
    CHECK(fake().executed().size() == kGood + 1);
}

TEST_CASE("what one call refuses is that command buffer's error, and later ones run") {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    fake().fail("cuLaunchKernelEx", 2, 701);
    CHECK(contains(ran(world.remaps(remap, inds, table, 3)),
                   "launching kernel slot_remap_rows: CUDA_ERROR_OTHER (701)"));
    CHECK(world.ints(inds) == std::vector<int>{1, 2, 3, 0});  // the first had run
    fake().fail("cuLaunchKernelEx", 5, 701);
    CHECK(contains(ran(world.remaps(remap, inds, table, 20)), "launching kernel slot_remap_rows"));
    CHECK(ran(world.remaps(remap, inds, table, 3)) == "");
    CHECK(world.ints(inds) == kStart);
    const std::string wide = ran(world.remaps(remap, inds, table, 1, uint64_t{1} << 31));
    CHECK(contains(wide, "kernel slot_remap_rows: 2147483648 threadgroups in dimension 0"));
    CHECK(contains(wide, "at most 2147483647"));
}

TEST_CASE("a text that does not compile says why") {
    const CudaWorld world;
    std::string why;
    CHECK(world.pipeline("slot_remap_rows", own_text() + "\n#error\n", &why).get() == nullptr);
    CHECK(contains(why, "error: as asked"));
    CHECK(contains(why, "NVRTC_ERROR_COMPILATION"));
}

TEST_CASE("machine code without the kernel is not kept") {
    const CudaWorld world;
    std::string why;
    fake().fail("cuModuleGetFunction", 1, 500);
    CHECK(world.pipeline("slot_remap_rows", own_text(), &why).get() == nullptr);
    CHECK(contains(why, "CUDA, finding a kernel: CUDA_ERROR_OTHER (500)"));
    CHECK(fake().live()["module"] == 0);
    CHECK(world.pipeline("slot_remap_rows").get() != nullptr);
}

TEST_CASE("no context: nothing counts as done") {
    const CudaWorld world;
    fake().fail("cuDevicePrimaryCtxRetain", 1, 2);
    CHECK(world.buffer(16).get() == nullptr);
    const auto buffer = world.buffer(16);
    REQUIRE(buffer.get() != nullptr);
    fake().fail("cuCtxPushCurrent_v2", 1, 2);
    auto *const commands = world.queue->commandBuffer();
    auto *const blit = commands->blitCommandEncoder();
    blit->fillBuffer(buffer.get(), NS::Range(0, 16), 1);
    blit->endEncoding();
    CHECK(contains(ran(commands), "CUDA, entering the context: CUDA_ERROR_OTHER (2)"));
}

// Everything that a small program does, with one call of CUDA's failing: it succeeds or says what failed;
// nothing hangs, crashes or leaks.
TEST_CASE("each call in turn fails") {
    for (const int result : {2, 700}) {
        int n = 0, clean = 0;
        do {
            ++n;
            REQUIRE(n < 1000);
            CAPTURE(n);
            CAPTURE(result);
            {
                const CudaWorld world;
                fake().fail("", n, result);
                std::vector<std::string> errors;
                const auto note = [&](const std::string &error) {
                    if (!error.empty()) errors.push_back(error);
                };
                std::string why;
                const auto remap = world.pipeline("slot_remap_rows", own_text(), &why);
                note(why);
                const auto inds = world.numbers(kStart), table = world.numbers(kNext);
                const auto far = world.buffer(16, true);
                if (!inds || !table || !far) note("CUDA: a buffer is null");
                if (inds && table && far) {
                    auto *const moves = world.queue->commandBuffer();
                    auto *const blit = moves->blitCommandEncoder();
                    blit->copyFromBuffer(inds.get(), 0, far.get(), 0, 16);
                    blit->fillBuffer(far.get(), NS::Range(0, 4), 0);
                    blit->copyFromBuffer(far.get(), 0, inds.get(), 0, 16);
                    blit->endEncoding();
                    moves->commit();
                    std::vector<MTL::CommandBuffer *> all = {moves};
                    for (const int times : {2, 20, 20, 2}) {
                        if (!remap) break;
                        all.push_back(world.remaps(remap, inds, table, times));
                        all.back()->commit();
                    }
                    for (auto *const each : all) note(outcome(each));
                    if (errors.empty()) CHECK(world.ints(inds) == kStart);
                }
                if (fake().has_failed()) {
                    for (const std::string &each : errors) CHECK(contains(each, "CUDA"));
                } else {
                    CHECK(errors.empty());
                    ++clean;
                }
                CHECK(fake().contexts_here() == 0);
            }
            // A call that fails with a fatal code makes the driver give the context up, and all in it.
            if (result != 700)
                CHECK_MESSAGE(comes_true([] { return leaked().empty(); }), leaked().begin()->first);
        } while (clean == 0);
        CHECK(n > 40);
    }
}

// The thread sanitizer lets no child of a process with threads start one.
TEST_CASE("a forked child is told, and does not hang" * doctest::skip(QWISP_SANITIZED)) {
    const CudaWorld world;
    const auto remap = world.pipeline("slot_remap_rows");
    const auto inds = world.numbers(kStart), table = world.numbers(kNext);
    CHECK(ran(world.remaps(remap, inds, table, 4)) == "");
    fake().hold(true);
    auto *const flying = world.remaps(remap, inds, table, 4);
    flying->commit();
    CHECK(in_child([&] {
              if (!contains(outcome(flying), "forked")) return 1;
              if (world.buffer(16).get() != nullptr) return 2;
              std::string why;
              if (world.pipeline("qmm8_rows", own_text(), &why) || !contains(why, "fork")) return 3;
              const std::string error = ran(world.remaps(remap, inds, table, 4));
              return contains(error, kLost) && contains(error, "does not survive a fork") ? 0 : 4;
          }) == "exit 0");
    fake().hold(false);
    CHECK(outcome(flying) == "");
    CHECK(world.ints(inds) == kStart);
}

TEST_CASE("a child of a process that made no context yet is told as well") {
    const CudaWorld world;
    CHECK(in_child([&] { return world.buffer(16).get() == nullptr ? 0 : 1; }) == "exit 0");
    CHECK(world.buffer(16).get() != nullptr);
}
