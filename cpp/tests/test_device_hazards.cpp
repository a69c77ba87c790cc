// Concurrent encoders: which pairs of dispatches need a barrier, which barriers nobody needed.
#include <doctest/doctest.h>

#include "fake_driver.h"
#include "metal_runtime/device/testing.h"

using namespace qwisp::test;

namespace {

struct Concurrent : World {
    MTL::CommandBuffer *commands = queue->commandBuffer();
    MTL::ComputeCommandEncoder *encoder = commands->computeCommandEncoder(MTL::DispatchTypeConcurrent);

    void scale_to(const BufferPtr &from, const BufferPtr &to, size_t from_offset = 0,
                  size_t to_offset = 0) const {
        encode_scale(encoder, from, to, 2, from_offset, to_offset);
    }
    void barrier() const { encoder->memoryBarrier(MTL::BarrierScopeBuffers); }
    void barrier(std::initializer_list<const MTL::Resource *> resources) const {
        encoder->memoryBarrier(resources.begin(), resources.size());
    }
    std::pair<uint64_t, uint64_t> counts() const {
        encoder->endEncoding();
        const BarrierCounts counts = barrier_counts(commands);
        return {counts.all, counts.superfluous};
    }
};
using Counts = std::pair<uint64_t, uint64_t>;

}  // namespace

TEST_CASE("hazard: read after write, write after read, write after write") {
    for (int kind = 0; kind < 3; ++kind) {
        CAPTURE(kind);
        Concurrent c;
        c.scale_to(c.x, c.y);
        const Refusal refused = refusal([&] {
            if (kind == 0) c.scale_to(c.y, c.z);
            if (kind == 1) c.scale_to(c.z, c.x);
            if (kind == 2) c.scale_to(c.z, c.y);
        });
        CHECK(refused.misuse == Misuse::hazard);
        const char *const parts[] = {
            "(argument x) reads buffer 'y' at offset 0, which kernel scale (argument y) writes",
            "(argument y) writes buffer 'x' at offset 0, which kernel scale (argument x) reads",
            "(argument y) writes buffer 'y' at offset 0, which kernel scale (argument y) writes"};
        CAPTURE(refused.message);
        CHECK(refused.message.find(parts[kind]) != std::string::npos);
        CHECK(refusal([&] { c.commands->commit(); }).misuse == Misuse::commit_after_misuse);
    }
}

TEST_CASE("hazard: a read-write argument conflicts with itself in the next dispatch") {
    Concurrent c;
    c.encode_add(c.encoder, c.x, c.y);
    CHECK(refusal([&] { c.encode_add(c.encoder, c.x, c.y); }).misuse == Misuse::hazard);
}

TEST_CASE("hazard: readers share, a dispatch may alias its own arguments, slices are apart") {
    Concurrent c;
    c.scale_to(c.x, c.y);
    c.scale_to(c.x, c.z);
    const BufferPtr own = c.buffer(64, "own"), slices = c.buffer(64, "slices");
    c.scale_to(own, own);
    c.scale_to(c.x, slices, 0, 0);
    c.scale_to(c.x, slices, 16, 16);
    CHECK(refusal([&] { c.scale_to(slices, own, 32); }).misuse == Misuse::hazard);  // `own` was written
}

TEST_CASE("hazard: a barrier separates, for all buffers or for those it names") {
    Concurrent c;
    c.scale_to(c.x, c.y);
    c.barrier();
    c.scale_to(c.y, c.z);
    c.barrier({c.z.get()});
    const BufferPtr other = c.buffer(64, "other");
    c.scale_to(c.z, other);
    CHECK(refusal([&] { c.scale_to(c.x, c.y); }).misuse ==
          Misuse::hazard);  // y is read before, and was not named
}

TEST_CASE("hazard: phases tell the driver what may overlap") {
    Concurrent c;
    c.scale_to(c.x, c.y);
    c.scale_to(c.x, c.z);
    c.barrier();
    c.scale_to(c.z, c.y);
    c.encoder->endEncoding();
    auto *const serial = c.commands->computeCommandEncoder();
    c.encode_scale(serial, c.x, c.y, 1);
    c.encode_scale(serial, c.x, c.y, 1);
    serial->endEncoding();
    c.commands->commit();
    c.commands->waitUntilCompleted();
    std::vector<uint32_t> phases;
    for (const Command &command : c.driver->seen) phases.push_back(std::get<Dispatch>(command).phase);
    REQUIRE(phases.size() == 5);
    CHECK(phases[0] == phases[1]);
    CHECK(std::set<uint32_t>(phases.begin(), phases.end()).size() == 4);
}

TEST_CASE("barriers: needed ones are not superfluous") {
    Concurrent c;
    c.scale_to(c.x, c.y);
    c.barrier();
    c.scale_to(c.y, c.z);
    c.barrier();
    c.scale_to(c.z, c.x);  // conflicts with the first dispatch as well
    c.barrier({c.x.get()});
    c.scale_to(c.z, c.x);
    CHECK(c.counts() == Counts{3, 0});
}

TEST_CASE("barriers: two for one buffer each may both be needed") {
    Concurrent c;
    c.scale_to(c.x, c.y);
    c.scale_to(c.x, c.z);
    c.barrier({c.y.get()});
    c.barrier({c.z.get()});
    c.scale_to(c.y, c.buffer(64, "one"));
    c.scale_to(c.z, c.buffer(64, "two"));
    c.barrier({c.x.get()});
    c.barrier();  // ends x once more, and y and z for the first time since they were read
    c.scale_to(c.y, c.x);
    CHECK(c.counts() == Counts{4, 2});
}

TEST_CASE("barriers: superfluous ones are counted") {
    SUBCASE("before the first dispatch and after the last") {
        Concurrent c;
        c.barrier();
        c.scale_to(c.x, c.y);
        c.barrier();
        CHECK(c.counts() == Counts{2, 2});
    }
    SUBCASE("between dispatches that do not conflict") {
        Concurrent c;
        c.scale_to(c.x, c.y);
        c.barrier();
        c.scale_to(c.x, c.z);
        CHECK(c.counts() == Counts{1, 1});
    }
    SUBCASE("two where one does") {
        Concurrent c;
        c.scale_to(c.x, c.y);
        c.barrier();
        c.barrier();
        c.scale_to(c.y, c.z);
        CHECK(c.counts() == Counts{2, 2});  // each alone could go
    }
    SUBCASE("for resources that are not the ones in conflict, or for textures") {
        Concurrent c;
        c.scale_to(c.x, c.y);
        c.barrier({c.z.get()});
        c.encoder->memoryBarrier(MTL::BarrierScopeTextures);
        c.scale_to(c.x, c.z);
        CHECK(c.counts() == Counts{2, 2});
    }
    SUBCASE("any in a serial encoder") {
        World world;
        auto *const commands = world.queue->commandBuffer();
        auto *const encoder = commands->computeCommandEncoder();
        world.encode_scale(encoder, world.x, world.y, 1);
        encoder->memoryBarrier(MTL::BarrierScopeBuffers);
        world.encode_scale(encoder, world.y, world.z, 1);
        encoder->endEncoding();
        CHECK(barrier_counts(commands).all == 1);
        CHECK(barrier_counts(commands).superfluous == 1);
    }
}

TEST_CASE("hazard: many slices and many epochs") {
    Concurrent c;
    const BufferPtr large = c.buffer(1 << 16, "large");
    for (int epoch = 0; epoch < 3; ++epoch) {
        for (size_t i = 0; i < 1000; ++i) c.scale_to(c.x, large, 0, 16 * i);
        CHECK(refusal([&] { c.scale_to(large, c.z, 16 * 999); }).misuse == Misuse::hazard);
        c.barrier();
    }
    CHECK(c.counts() == Counts{3, 1});
}
