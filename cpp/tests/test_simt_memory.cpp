// Device memory under the adversary: which outcomes it shows, which never, and the races that it reports.
#include <algorithm>

#include "litmus_fixture.h"

using namespace qwisp;
using namespace qwisp::test;

namespace {

constexpr uint64_t kSeeds = 400;
using Pair = Litmus::Pair;

struct Publishing : Litmus {
    Publishing(bool plain, bool release, bool acquire) {
        constants = {{0u, plain}, {1u, release}, {2u, acquire}, {3u, 0u}};
    }
};

}  // namespace

TEST_CASE("relaxed atomics show a message before its data; fences on both sides order them") {
    for (const bool release : {false, true}) {
        for (const bool acquire : {false, true}) {
            Publishing litmus(false, release, acquire);
            for (const auto &found : {litmus.seeds("publish", kSeeds), litmus.explored("publish", 2)}) {
                INFO("release ", release, " acquire ", acquire, " runs ", found.runs, " ", found.error);
                CHECK(found.errors == 0);
                CHECK(found.pairs.contains(Pair{0, 0}));
                CHECK(found.pairs.contains(Pair{1, 42}));
                CHECK(found.pairs.contains(Pair{1, 0}) == !(release && acquire));
            }
        }
    }
}

TEST_CASE("plain data behind a message is a race unless fences on both sides order it") {
    for (const bool release : {false, true}) {
        for (const bool acquire : {false, true}) {
            Publishing litmus(true, release, acquire);
            for (const auto &found : {litmus.seeds("publish", kSeeds), litmus.explored("publish", 2)}) {
                INFO("release ", release, " acquire ", acquire, " runs ", found.runs, " ", found.error);
                CHECK((found.errors == 0) == (release && acquire));
                CHECK(found.pairs.contains(Pair{0, kUntouched}));
                CHECK(found.pairs.contains(Pair{1, 42}) == (release && acquire));
            }
        }
    }
    const std::string error = Publishing(true, false, false).seeds("publish", kSeeds).error;
    contains(error,
             "kernel publish: race: 4-byte read at byte offset 0 of argument 'data' (buffer 1), and nothing "
             "orders it and the write by thread 0 of threadgroup (0, 0, 0); threadgroup (1, 0, 0), thread 0 "
             "(simdgroup 0, lane 0), seed ");
}

TEST_CASE("an error's seed brings the error again") {
    Publishing litmus(true, false, false);
    const std::string error = litmus.seeds("publish", kSeeds).error;
    const uint64_t seed = std::stoull(error.substr(error.rfind("seed ") + 5));
    for (int i = 0; i < 3; i++) {
        litmus.driver.set_shuffle_seed(seed);
        CHECK(litmus.once("publish").error == error);
    }
}

TEST_CASE("stores pass later loads, and stores of two threadgroups pass each other") {
    Litmus litmus;
    for (const auto &found :
         {litmus.seeds("store_buffering", kSeeds), litmus.explored("store_buffering", 3)}) {
        INFO("runs ", found.runs, " ", found.error);
        for (const Pair &pair : {Pair{0, 0}, Pair{0, 1}, Pair{1, 0}, Pair{1, 1}}) {
            CHECK(found.pairs.contains(pair));
        }
        CHECK(found.errors == 0);
    }
    for (const auto &found :
         {litmus.seeds("two_writes_each", kSeeds, true), litmus.explored("two_writes_each", 3, true)}) {
        INFO("runs ", found.runs, " ", found.error);
        for (const Pair &pair : {Pair{1, 1}, Pair{2, 1}, Pair{1, 2}}) CHECK(found.pairs.contains(pair));
    }
}

TEST_CASE("one word is coherent: loads never go back") {
    Litmus litmus;
    for (const auto &found : {litmus.seeds("coherence", 4 * kSeeds), litmus.explored("coherence", 5)}) {
        CHECK(found.pairs.size() == 15);
        for (const auto &[pair, count] : found.pairs) CHECK(pair.first <= pair.second);
    }
    Litmus last;
    for (uint64_t seed = 0; seed < 50; seed++) {
        last.driver.set_shuffle_seed(seed);
        REQUIRE(last.once("coherence").words[0] == 4);  // a thread's own stores keep their order
    }
}

TEST_CASE("fences hand on what they know") {
    for (const bool acquire : {false, true}) {
        Litmus litmus;
        litmus.constants[2] = acquire;
        litmus.groups = 3;
        litmus.threads = 64;
        const auto found = litmus.seeds("handed_on", 2 * kSeeds);
        INFO(found.error);
        CHECK((found.errors == 0) == acquire);
        CHECK(found.pairs.contains(Pair{42, kUntouched}) == acquire);
    }
}

TEST_CASE("a threadgroup_barrier orders device memory within its threadgroup if it says mem_device") {
    for (const uint32_t flags : {0u, 1u, 2u, 3u}) {
        const bool orders = flags & 1;
        for (const bool plain : {false, true}) {
            Litmus litmus;
            litmus.constants[0] = plain;
            litmus.constants[3] = flags;
            litmus.threads = 64;
            const auto found = litmus.seeds("within_group", kSeeds);
            INFO("flags ", flags, " plain ", plain, " ", found.error);
            CHECK((found.errors == 0) == (orders || !plain));
            CHECK(found.pairs.contains(Pair{42, 42}) == (orders || !plain));
            CHECK(found.pairs.contains(Pair{0, 42}) == (!orders && !plain));
        }
    }
}

TEST_CASE("many threadgroups are under way at once") {
    simt::RunawayLimits limits;
    limits.watched_accesses = 10'000;
    Litmus litmus(limits);
    litmus.groups = 32;
    int all = 0, starved = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        litmus.driver.set_shuffle_seed(seed);
        auto [words, tickets, error] = litmus.once("all_at_once");
        if (error.empty()) {
            std::sort(tickets.begin(), tickets.begin() + 32);
            for (uint32_t g = 0; g < 32; g++) REQUIRE(tickets[g] == g);
            all++;
        } else {  // whoever waits for others may keep them waiting
            contains(error, "runaway: ");
            starved++;
        }
    }
    CHECK(all > 5);
    CHECK(starved > 1);
}

TEST_CASE(
    "the last arriver's pattern holds under all choices with few departures; without its check it does not") {
    for (const uint64_t groups : {2u, 3u}) {
        for (const bool checks : {true, false}) {
            Litmus litmus;
            litmus.groups = groups;
            litmus.constants[2] = checks;
            const auto found = litmus.explored("last_arriver", 4);
            const uint32_t sum = groups == 2 ? 21 : 33;
            INFO("runs ", found.runs, " outcomes ", found.pairs.size(), " ", found.error);
            CHECK(found.errors == 0);
            CHECK(found.runs > 500);
            CHECK((found.pairs == std::map<Pair, int>{{Pair{1, sum}, found.runs}}) == checks);
            const auto words = litmus.explored("last_arriver", 2, true).pairs;
            if (checks) CHECK(words == std::map<Pair, int>{{Pair{0, 0}, words.begin()->second}});
        }
    }
    Litmus plain;
    plain.constants[0] = true;
    const auto found = plain.explored("last_arriver", 1);
    CHECK(found.errors > 0);
    contains(found.error, "race: 4-byte ");
    contains(found.error, ", choices");
}

TEST_CASE("parts of a word are apart, a plain access and an atomic one are not") {
    Litmus litmus;
    CHECK(litmus.seeds("neighbours", 50).error == "");
    CHECK(litmus.once("neighbours").out[0] == (8u << 16 | 7));
    const auto found = litmus.seeds("plain_and_atomic", 50);
    CHECK(found.errors == 50);
    contains(found.error, "'words' (buffer 0), and nothing orders it and the ");
}

TEST_CASE("a word that never comes ends soon") {
    simt::RunawayLimits limits;
    limits.watched_accesses = 10'000;
    Litmus litmus(limits);
    litmus.groups = 3;
    litmus.threads = 1024;  // of which no more than 2 threadgroups are under way at once
    const auto found = litmus.seeds("all_at_once", 1);
    contains(found.error,
             "runaway: more than 10000 accesses of one threadgroup to argument 'words' (buffer 0)");
}
