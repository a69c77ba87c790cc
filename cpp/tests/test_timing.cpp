// The timing harness: order, samples, what it notices. To add a planted fault: planted.cpp, then a case here.
#include <set>

#include "route_fixture.h"
#include "timing/planted.h"
#include "timing/probe.h"

using namespace qwisp;
using namespace qwisp::test;
using namespace qwisp::timing;

namespace {

WorkloadOptions small() {
    WorkloadOptions options;
    options.shape = {2, 512, 16, 4};
    options.layers = 3;
    return options;
}

const std::vector<Arm> kArms = {{"pair", Fuse::pair}, {"single", Fuse::single}, {"last", Fuse::last}};

}  // namespace

TEST_CASE("rounds are mirrored in pairs, and every arm gets every place") {
    using Order = std::vector<size_t>;
    CHECK(round_order(2, 0) == Order{0, 1});
    CHECK(round_order(2, 1) == Order{1, 0});
    CHECK(round_order(2, 2) == Order{1, 0});
    CHECK(round_order(2, 3) == Order{0, 1});
    CHECK(round_order(1, 7) == Order{0});
    for (size_t arms : {2u, 3u, 4u}) {
        std::map<std::pair<size_t, size_t>, int> places;
        for (int64_t round = 0; round < int64_t(2 * arms); ++round) {
            const Order order = round_order(arms, round);
            for (size_t position = 0; position < arms; ++position) ++places[{order[position], position}];
        }
        CHECK(places.size() == arms * arms);
        for (const auto &[place, count] : places) CHECK(count == 2);
    }
}

TEST_CASE("every sample is kept, in order, with stamps that advance") {
    for (bool concurrent : {false, true}) {
        Harness harness(context(), kArms, small(), concurrent);
        const auto samples = harness.run(5, 4, true);
        REQUIRE(samples.size() == 12);
        for (size_t i = 0; i < samples.size(); ++i) {
            const Sample &sample = samples[i];
            CHECK(sample.round == 5 + int64_t(i / 3));
            CHECK(sample.position == int64_t(i % 3));
            CHECK(size_t(sample.arm) == round_order(3, sample.round)[i % 3]);
            CHECK(sample.gpu.start < sample.gpu.end);
            CHECK(sample.committed_ns < sample.completed_ns);
            CHECK(sample.wall_ns > 0);
            if (i > 0) CHECK(samples[i - 1].gpu.end <= sample.gpu.start);
        }
        CHECK(harness.outputs().difference() == "");
        for (uint64_t compared : harness.outputs().compared()) CHECK(compared > 0);
    }
}

TEST_CASE("what an encoder sees is the plan of every layer") {
    for (bool concurrent : {false, true}) {
        const Harness harness(context(), kArms, small(), concurrent);
        for (size_t arm = 0; arm < kArms.size(); ++arm) {
            const Encoded encoded = harness.encoded(arm);
            const RoutePlan &plan = harness.plan(arm);
            REQUIRE(encoded.kernels.size() == 3 * plan.steps.size());
            for (size_t i = 0; i < encoded.kernels.size(); ++i)
                CHECK(encoded.kernels[i] == kernel_name(plan.steps[i % plan.steps.size()].kernel));
            CHECK(encoded.barriers == (concurrent ? 3 * plan.barriers() + 2 : 0));
        }
    }
}

TEST_CASE("cold gates: another block with each command buffer, the same for all arms of a round if asked") {
    WorkloadOptions options = small();
    options.blocks = 3;
    Harness harness(context(), kArms, options, false);
    for (const Sample &sample : harness.run(0, 3, false)) CHECK(sample.block == sample.round % 3);
    for (uint64_t compared : harness.outputs().compared()) CHECK(compared > 0);
    const auto samples = harness.run(3, 3, true);
    for (size_t i = 1; i < samples.size(); ++i) CHECK(samples[i].block != samples[i - 1].block);
    CHECK(harness.outputs().difference() == "");
}

TEST_CASE("the rows differ between rounds and are the same for all arms of one") {
    Harness harness(context(), kArms, small(), false);
    std::map<int64_t, std::set<uint64_t>> hashes;
    std::set<uint64_t> all;
    for (const Sample &sample : harness.run(0, 4, true)) {
        hashes[sample.round].insert(sample.x_hash);
        all.insert(sample.x_hash);
    }
    for (const auto &[round, found] : hashes) CHECK(found.size() == 1);
    CHECK(all.size() == 4);
}

TEST_CASE("planted faults show in what the harness returns") {
    const auto harness = [](const char *fault) {
        return std::make_unique<Harness>(context(), kArms, small(), false, planted(fault));
    };
    CHECK(harness("ignored flag")->encoded(1).kernels == harness("")->encoded(0).kernels);
    CHECK(harness("extra dispatch")->encoded(1).kernels.size() == 6);
    auto wrong = harness("wrong output");
    wrong->run(0, 1, true);
    CHECK(mentions(wrong->outputs().difference(), {"round 0", "layer 0", "'single'", "'pair'"}));
    const auto unfilled = harness("no-op prefill")->run(0, 4, true);
    std::set<uint64_t> hashes;
    for (const Sample &sample : unfilled) hashes.insert(sample.x_hash);
    CHECK(hashes.size() == 1);
    const auto frozen = harness("frozen clock")->run(0, 1, true);
    for (const Sample &sample : frozen) CHECK(sample.gpu.start == sample.gpu.end);
    CHECK(mentions(message<std::invalid_argument>([] { planted("gremlins"); }), {"planted", "gremlins"}));
}

TEST_CASE("options are refused by name") {
    const auto refusal = [](auto change) {
        WorkloadOptions options = small();
        change(options);
        return message<std::invalid_argument>([&] { Harness(context(), kArms, options, false); });
    };
    CHECK(mentions(refusal([](auto &o) { o.layers = 0; }), {"layers", "0", "1 to 4096"}));
    CHECK(mentions(refusal([](auto &o) { o.x_sets = 0; }), {"x_sets"}));
    CHECK(mentions(refusal([](auto &o) { o.blocks = 1 << 20; }), {"blocks", "1048576"}));
    CHECK(mentions(refusal([](auto &o) { o.in_flight = 17; }), {"in_flight", "17", "16"}));
    CHECK(mentions(refusal([](auto &o) { o.shape.rows = 0; }), {"rows", "0"}));
    CHECK(mentions(refusal([](auto &o) { o.shape.hidden = 100; }), {"hidden", "100"}));
    const auto arms = [](const std::vector<Arm> &given) {
        return message<std::invalid_argument>([&] { Harness(context(), given, small(), false); });
    };
    CHECK(mentions(arms({}), {"arms"}));
    CHECK(mentions(arms({kArms[0], kArms[0]}), {"arms", "'pair'", "twice"}));
}

TEST_CASE("the dispatch probe runs every kind of work in every order") {
    DispatchProbe probe(context(), 8);
    for (Work work : {Work::empty, Work::tiny}) {
        for (Order order : {Order::serial, Order::concurrent, Order::barriers}) {
            const ProbeSample sample = probe.run(work, order, 8);
            CHECK(sample.gpu.start < sample.gpu.end);
            CHECK(sample.wall_ns > 0);
        }
    }
    const auto refusal = message<std::invalid_argument>([&] { probe.run(Work::empty, Order::serial, 9); });
    CHECK(mentions(refusal, {"dispatches", "9", "1 to 8"}));
}

TEST_CASE("auto runs what was measured to win for the shape") {
    RouteRequest request;
    request.shape = {2, 512, 16, 4};
    request.fuse = Fuse::automatic;
    const auto on = [&](Verdicts verdicts) {
        return plan_route(Context::create(context()->device(), {.verdicts = std::move(verdicts)}), request);
    };
    CHECK(on({}).variant == Variant::pair);
    CHECK(mentions(on({}).reason, {"auto", "no measurement"}));
    CHECK(on({{request.shape, Variant::single}}).variant == Variant::single);
    CHECK(on({{request.shape, Variant::last}}).variant == Variant::last);
    CHECK(mentions(on({{request.shape, Variant::last}}).reason, {"auto", "measured to win"}));
    CHECK(mentions(on({{request.shape, Variant::pair}}).reason, {"auto", "nothing was measured to beat it"}));
    CHECK(on({{{3, 512, 16, 4}, Variant::single}}).variant == Variant::pair);
    request.logits = true;
    CHECK(on({{request.shape, Variant::single}}).variant == Variant::pair);
}
