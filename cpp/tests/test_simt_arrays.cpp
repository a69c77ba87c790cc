// Threadgroup arrays under the adversary: races between barriers.
#include "litmus_fixture.h"

using namespace qwisp;
using namespace qwisp::test;

namespace {

// How many of 20 seeds report a race, and the first report.
Litmus::Outcomes races(const char *kernel, uint32_t flags, uint64_t threads = 64) {
    Litmus litmus;
    litmus.constants[3] = flags;
    litmus.groups = 1;
    litmus.threads = threads;
    return litmus.seeds(kernel, 20);
}

}  // namespace

TEST_CASE("threads of a threadgroup need a barrier with mem_threadgroup between a write and a read") {
    for (const uint64_t threads : {32u, 64u, 1024u}) {
        CHECK(races("pass_left", 2, threads).error == "");
        CHECK(races("pass_left", 3, threads).error == "");
        for (const uint32_t flags : {0u, 1u}) {
            const auto found = races("pass_left", flags, threads);
            CHECK(found.errors == 20);
            contains(found.error, "kernel pass_left: race: 2-byte ");
            contains(found.error,
                     " of threadgroup array 'row', and nothing orders it and the write by thread ");
            contains(found.error, "; threadgroup (0, 0, 0), thread ");
            contains(found.error, ", seed 0");
        }
    }
}

TEST_CASE("a simdgroup_barrier orders its simdgroup and no other") {
    CHECK(races("pass_lanes", 32).error == "");
    CHECK(races("pass_lanes", 8).error == "");
    const auto found = races("pass_lanes", 64);
    CHECK(found.errors == 20);
    contains(found.error, "kernel pass_lanes: race: 4-byte ");
}

TEST_CASE("parts of an element are apart; atomics may meet, a plain read among them may not") {
    CHECK(races("narrow", 0).error == "");
    CHECK(races("counted", 2).error == "");
    const auto found = races("counted", 1);
    CHECK(found.errors == 20);
    contains(found.error,
             " of threadgroup array 'count', and nothing orders it and the atomic write by thread ");
}

TEST_CASE("without a seed nothing is watched") {
    Litmus litmus;
    litmus.constants[3] = 0u;
    litmus.groups = 1;
    litmus.threads = 64;
    CHECK(litmus.once("counted").error == "");
}
