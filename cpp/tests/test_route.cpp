// Routes on a real device: the variants agree, the branches do what the contract says, errors leave things
// whole. To add a case: plant logits (planted_layer) or make a random layer, then run() it with each variant.
#include <atomic>
#include <functional>
#include <thread>

#include "route_fixture.h"

using namespace qwisp;
using namespace qwisp::test;

namespace {

constexpr Fuse kNamed[] = {Fuse::pair, Fuse::single, Fuse::last, Fuse::split_pair, Fuse::split_last};

// One route in a command buffer of its own. Returns the device's message if it failed, else "".
std::string submit(MTL::DispatchType type, const std::function<void(MTL::ComputeCommandEncoder *)> &encode) {
    AutoreleaseScope pool;
    MTL::CommandBuffer *commands = context()->queue()->commandBuffer();
    MTL::ComputeCommandEncoder *encoder = commands->computeCommandEncoder(type);
    encode(encoder);
    encoder->endEncoding();
    commands->commit();
    commands->waitUntilCompleted();
    if (commands->status() == MTL::CommandBufferStatusCompleted) return "";
    return commands->error()->localizedDescription()->utf8String();
}

// Everything an engine hands over at once.
struct Engine {
    int64_t rows, top_k = 8;
    Layer layer;
    std::shared_ptr<Gate> gate;
    std::shared_ptr<RouteScratch> scratch;
    BufferPtr x, resident, diag_inds, diag_logits, table;
    RouteBias bias;
    RouteDiag diag;
    Remap remap;

    explicit Engine(int64_t rows_, uint32_t seed = 1)
        : rows(rows_),
          layer(random_layer(512, 64, seed)),
          gate(layer.gate()),
          scratch(RouteScratch::create(context(), rows, 64, top_k)),
          x(upload(random_rows(rows, 512, seed + 1), "x")) {
        Ints residents(64), slots(64);
        for (int e = 0; e < 64; ++e) {
            residents[size_t(e)] = e % 3 == 0;
            slots[size_t(e)] = 1000 + e;
        }
        resident = upload(residents, "resident");
        table = upload(slots, "table");
        diag_inds = upload(Ints(2 * 3 * 4 * 8, -7), "diag_inds");  // 2 slots, 3 layers, 4 rows
        diag_logits = upload(Halfs(3 * 64, 0x7777), "diag_logits");
        bias = {resident.get(), 0.25f};
        diag = {diag_inds.get(), diag_logits.get(), {.layer = 1, .layers = 3, .slot = 0, .max_rows = 4}};
        remap = {table.get(), 64};
    }

    RouteOperands operands(bool all = true) const {
        RouteOperands o{.x = x.get(), .gate = gate.get(), .scratch = scratch.get()};
        if (all) {
            o.bias = &bias;
            o.diag = &diag;
            o.remap = &remap;
        }
        return o;
    }
    RoutePlan plan(const RouteOperands &o, Fuse fuse = Fuse::pair, bool logits = false) const {
        return plan_route(context(), route_request(o, rows, fuse, logits));
    }
    Routed result(bool logits = true) const {
        return {read<int32_t>(scratch->inds(), size_t(rows * top_k)),
                read<uint16_t>(scratch->scores(), size_t(rows * top_k)),
                logits ? read<uint16_t>(scratch->logits(), size_t(rows * 64)) : Halfs()};
    }
    bool cleared() const {
        const auto arrivals = read<uint32_t>(scratch->arrivals(), size_t(rows));
        const auto words = read<uint32_t>(scratch->words(), size_t(rows * 64));
        return arrivals == std::vector<uint32_t>(arrivals.size()) &&
               words == std::vector<uint32_t>(words.size());
    }
};

}  // namespace

TEST_CASE("every variant gives the pair's bits") {
    Ints resident(64);
    for (size_t e = 0; e < 64; e += 2) resident[e] = 1;
    for (int64_t rows : {1, 2, 5}) {
        const Layer layer = random_layer(1024, 64, uint32_t(rows));
        const Halfs x = random_rows(rows, 1024, 99);
        for (int64_t top_k : {1, 8, 32}) {
            for (float eps : {0.0f, 0.125f}) {
                const HostBias bias{resident, eps};
                Router pair(layer.gate(), top_k, Fuse::pair);
                const Routed wanted = run(pair, x, &bias);
                for (Fuse fuse : {Fuse::single, Fuse::last, Fuse::split_pair, Fuse::split_last}) {
                    Router fused(pair.gate(), top_k, fuse);
                    CHECK(run(fused, x, &bias) == wanted);
                    CHECK(run(fused, x, &bias, false).inds == wanted.inds);
                }
                if (eps == 0) CHECK(run(pair, x) == wanted);
            }
        }
    }
}

TEST_CASE("tie order is the contract's") {
    Halfs equal(256, half(0)), two(256, half(-1)), falling(256);
    two[1] = two[2] = half(5);
    for (size_t e = 0; e < 256; ++e) falling[e] = half(-int(e) - 1);
    const Layer layer = planted_layer({equal, two, falling});
    for (Fuse fuse : kNamed) {
        Router router(layer.gate(), 8, fuse);
        const Routed out = run(router, planted_rows(3));
        CHECK(Ints(out.inds.begin(), out.inds.begin() + 8) == Ints{0, 128, 64, 192, 32, 160, 96, 224});
        CHECK(Halfs(out.scores.begin(), out.scores.begin() + 8) == Halfs(8, 0x3000));
        CHECK(Ints(out.inds.begin() + 8, out.inds.begin() + 16) == Ints{2, 1, 0, 128, 64, 192, 32, 160});
        CHECK(Ints(out.inds.begin() + 16, out.inds.end()) == Ints{0, 1, 2, 3, 4, 5, 6, 7});
    }
}

TEST_CASE("bias, diag and remap together, in serial and concurrent encoders") {
    for (int64_t rows : {1, 3}) {
        Engine plain(rows);
        plain.bias.eps = 0.25f;
        RouteOperands biased = plain.operands(false);
        biased.bias = &plain.bias;
        const RoutePlan only_bias = plain.plan(biased);
        REQUIRE(submit(MTL::DispatchTypeSerial,
                       [&](auto *e) { encode_moe_route_rows(e, only_bias, biased); }) == "");
        const Routed wanted = plain.result();

        for (Fuse fuse : kNamed) {
            for (auto type : {MTL::DispatchTypeSerial, MTL::DispatchTypeConcurrent}) {
                Engine engine(rows);
                const RouteOperands all = engine.operands();
                const RoutePlan plan = engine.plan(all, fuse);
                REQUIRE(submit(type, [&](auto *e) { encode_moe_route_rows(e, plan, all); }) == "");
                const Routed got = engine.result();
                CHECK(got.scores == wanted.scores);
                CHECK(got.logits == wanted.logits);  // a diag request writes raw logits
                Ints remapped = wanted.inds;
                for (int32_t &i : remapped) i += 1000;
                CHECK(got.inds == remapped);

                const size_t count = size_t(rows) * 8, place = 4 * 8;  // layer 1, slot 0
                Ints inds(2 * 3 * 4 * 8, -7);
                std::copy_n(wanted.inds.begin(), count, inds.begin() + place);
                CHECK(read<int32_t>(engine.diag_inds.get(), inds.size()) == inds);
                Halfs logits(3 * 64, 0x7777);
                if (rows == 1) std::copy_n(wanted.logits.begin(), 64, logits.begin() + 64);
                CHECK(read<uint16_t>(engine.diag_logits.get(), logits.size()) == logits);
                CHECK(engine.cleared());
            }
        }
    }
}

TEST_CASE("a scratch can be used again and again, also within a command buffer") {
    Engine engine(3);
    const RouteOperands operands = engine.operands(false);
    for (Fuse fuse : kNamed) {
        const RoutePlan plan = engine.plan(operands, fuse, true);
        for (auto type : {MTL::DispatchTypeSerial, MTL::DispatchTypeConcurrent}) {
            const auto encode = [&](MTL::ComputeCommandEncoder *e) {
                for (int i = 0; i < 3; ++i) {
                    if (i > 0) e->memoryBarrier(MTL::BarrierScopeBuffers);
                    encode_moe_route_rows(e, plan, operands);
                }
            };
            REQUIRE(submit(type, encode) == "");
            CHECK(engine.cleared());
        }
    }
}

TEST_CASE("x may start anywhere on a float16") {
    Engine engine(2);
    const RouteOperands operands = engine.operands(false);
    const RoutePlan plan = engine.plan(operands);
    REQUIRE(submit(MTL::DispatchTypeSerial, [&](auto *e) { encode_moe_route_rows(e, plan, operands); }) ==
            "");
    const Routed wanted = engine.result();
    for (size_t shift : {1, 3}) {
        Halfs moved(shift, 0x7e00);
        const Halfs x = random_rows(2, 512, 2);
        moved.insert(moved.end(), x.begin(), x.end());
        const BufferPtr buffer = upload(moved, "x");
        RouteOperands o = operands;
        o.x = buffer.get();
        o.x_offset = shift * 2;
        REQUIRE(submit(MTL::DispatchTypeSerial, [&](auto *e) { encode_moe_route_rows(e, plan, o); }) == "");
        CHECK(engine.result() == wanted);
    }
}

TEST_CASE("operands that do not fit the plan are refused, and nothing is encoded") {
    Engine engine(3), other(3);
    const RouteOperands all = engine.operands(), none = engine.operands(false);
    const auto refusal = [&](const RoutePlan &plan, const RouteOperands &o) {
        std::string text;
        CHECK(submit(MTL::DispatchTypeSerial, [&](auto *e) {
                  text = message<std::invalid_argument>([&] { encode_moe_route_rows(e, plan, o); });
              }) == "");
        return text;
    };
    const RoutePlan full = engine.plan(all), bare = engine.plan(none);
    const auto with = [](RouteOperands o, auto change) {
        change(o);
        return o;
    };
    CHECK(mentions(refusal(full, with(all, [](auto &o) { o.bias = nullptr; })), {"bias", "missing"}));
    CHECK(mentions(refusal(full, with(all, [](auto &o) { o.diag = nullptr; })), {"diag", "missing"}));
    CHECK(mentions(refusal(full, with(all, [](auto &o) { o.remap = nullptr; })), {"remap", "missing"}));
    CHECK(mentions(refusal(bare, with(none, [&](auto &o) { o.bias = &engine.bias; })), {"bias", "without"}));
    CHECK(mentions(refusal(bare, with(none, [](auto &o) { o.x = nullptr; })), {"x", "null"}));
    CHECK(mentions(refusal(bare, with(none, [](auto &o) { o.gate = nullptr; })), {"gate", "null"}));
    CHECK(mentions(refusal(bare, with(none, [](auto &o) { o.scratch = nullptr; })), {"scratch", "null"}));
    CHECK(
        mentions(refusal(bare, with(none, [](auto &o) { o.x_offset = 1; })), {"x_offset", "multiple of 2"}));
    CHECK(mentions(refusal(bare, with(none, [](auto &o) { o.x_offset = 2; })), {"x", "3072 bytes", "3074"}));
    CHECK(mentions(refusal(bare, with(none, [](auto &o) { o.x_offset = UINT64_MAX - 1; })), {"x_offset"}));

    const auto small = RouteScratch::create(context(), 2, 64, 8),
               wide = RouteScratch::create(context(), 3, 72, 8);
    CHECK(mentions(refusal(bare, with(none, [&](auto &o) { o.scratch = small.get(); })), {"rows", "3", "2"}));
    CHECK(mentions(refusal(bare, with(none, [&](auto &o) { o.scratch = wide.get(); })),
                   {"experts", "72", "64"}));
    engine.diag.place.slot = 1;
    CHECK(mentions(refusal(full, all), {"diag", "another place"}));
    engine.diag.place = {.layer = 2, .layers = 3, .slot = 1, .max_rows = 5};
    CHECK(mentions(refusal(engine.plan(all), all), {"diag.inds", "768 bytes", "960"}));
    engine.diag.place = {.layer = 3, .layers = 4, .slot = 0, .max_rows = 4};
    CHECK(mentions(refusal(engine.plan(all), all), {"diag.logits", "384 bytes", "512"}));
    engine.diag.place = {.layer = 1, .layers = 3, .slot = 0, .max_rows = 4};
    for (int64_t length : {int64_t{63}, int64_t{-1}, int64_t{1} << 31}) {
        engine.remap.length = length;
        CHECK(mentions(refusal(full, all), {"remap.length", std::to_string(length).c_str(), "64"}));
    }
    engine.remap.length = 65;
    CHECK(mentions(refusal(full, all), {"remap.table", "256 bytes", "260"}));
    engine.remap.length = 64;
    engine.bias.eps = NAN;
    CHECK(mentions(refusal(full, all), {"bias.eps", "finite"}));
    RoutePlan pure = plan_route(bare.request, [](Kernel, const FusedConstants &) { return 1024u; });
    CHECK(mentions(refusal(pure, none), {"plan", "resolved"}));
}

TEST_CASE("a failed command buffer says why, and the scratch can be reset") {
    Engine engine(3);
    const RouteOperands operands = engine.operands(false);
    RoutePlan plan = engine.plan(operands, Fuse::last);
    const RoutePlan good = plan;
    plan.steps[0].groups = MTL::Size(4, 8, 1);  // a row more than there is
    const std::string text =
        submit(MTL::DispatchTypeSerial, [&](auto *e) { encode_moe_route_rows(e, plan, operands); });
    CHECK(mentions(text, {"route_fused_rows_last"}));
    engine.scratch->reset();
    CHECK(engine.cleared());
    CHECK(submit(MTL::DispatchTypeSerial, [&](auto *e) { encode_moe_route_rows(e, good, operands); }) == "");
}

TEST_CASE("router: sizes are checked before anything is written, no rows are no work") {
    Router router(random_layer(512, 64, 1).gate(), 8);
    const Halfs x = random_rows(2, 512, 1);
    Ints inds(16, -1);
    Halfs scores(16, 1), logits(2 * 64 - 1);
    const auto call = [&](int64_t rows, size_t x_count, size_t inds_count, size_t scores_count) {
        return message<std::invalid_argument>([&] {
            router.route(
                {.rows = rows, .x = std::as_bytes(std::span(x).first(x_count)), .bias = {}, .fuse = {}},
                {std::as_writable_bytes(std::span(inds).first(inds_count)),
                 std::as_writable_bytes(std::span(scores).first(scores_count)),
                 {}});
        });
    };
    CHECK(mentions(call(2, 1023, 16, 16), {"x", "2046", "2048"}));
    CHECK(mentions(call(2, 1024, 15, 16), {"inds", "60", "64"}));
    CHECK(mentions(call(2, 1024, 16, 15), {"scores", "30", "32"}));
    CHECK(mentions(call(-1, 0, 0, 0), {"rows", "-1"}));
    CHECK(inds == Ints(16, -1));
    CHECK(scores == Halfs(16, 1));
    CHECK(call(0, 0, 0, 0) == "no error");
    CHECK(call(2, 1024, 16, 16) == "no error");
    CHECK(inds != Ints(16, -1));
    CHECK(
        mentions(message<std::invalid_argument>([&] { Router(router.gate(), 65); }), {"top_k", "65", "64"}));
    CHECK(mentions(message<std::invalid_argument>([&] { Router(router.gate(), 0); }), {"top_k", "0"}));
    const Ints few(63);
    const HostBias bias{few, 1};
    CHECK(mentions(message<std::invalid_argument>([&] { run(router, x, &bias); }),
                   {"bias.resident", "63", "64"}));
}

TEST_CASE("router: plans are kept, and each call gets its own") {
    const Layer layer = random_layer(512, 64, 5);
    const auto gate = layer.gate();
    Ints resident(64);
    for (size_t e = 0; e < 64; e += 3) resident[e] = 1;
    Router router(gate, 8);
    for (int round = 0; round < 2; ++round) {
        for (int64_t rows : {1, 2, 3}) {  // with all that follows more plans than are kept
            const Halfs x = random_rows(rows, 512, uint32_t(rows));
            for (Fuse fuse : kNamed) {
                for (float eps : {0.0f, 0.125f}) {
                    for (bool logits : {false, true}) {
                        const HostBias bias{resident, eps};
                        Routed out{Ints(size_t(rows * 8)), Halfs(size_t(rows * 8)), Halfs(size_t(rows * 64))};
                        RouterOutput output{std::as_writable_bytes(std::span(out.inds)),
                                            std::as_writable_bytes(std::span(out.scores)),
                                            {}};
                        if (logits) output.logits = std::as_writable_bytes(std::span(out.logits));
                        const RouterInput input{rows, std::as_bytes(std::span(x)), bias, fuse};
                        const auto plan = router.route(input, output);
                        CHECK(plan == router.route(input, output));
                        CHECK(plan->request == router.plan(rows, eps > 0, logits, fuse).request);
                        Router fresh(gate, 8, fuse);
                        Routed wanted = run(fresh, x, &bias, logits);
                        wanted.logits.resize(out.logits.size());
                        CHECK(out == wanted);
                    }
                }
            }
        }
    }
}

TEST_CASE("router: several threads at once") {
    Router router(random_layer(512, 64, 5).gate(), 8, Fuse::last);
    std::vector<Halfs> inputs;
    std::vector<Routed> wanted;
    for (uint32_t i = 0; i < 4; ++i) {
        inputs.push_back(random_rows(int64_t(1 + 13 * i), 512, i));
        wanted.push_back(run(router, inputs.back()));
    }
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            for (size_t n = 0; n < 8; ++n) wrong += run(router, inputs[(i + n) % 4]) != wanted[(i + n) % 4];
        });
    }
    for (auto &thread : threads) thread.join();
    CHECK(wrong == 0);
}

TEST_CASE("gates: bytes and shapes must agree") {
    Layer layer = random_layer(512, 64, 1);
    layer.weight.pop_back();
    CHECK(mentions(message<std::invalid_argument>([&] { layer.gate(); }), {"weight", "32767", "32768"}));
    layer = random_layer(512, 64, 1);
    layer.scales.pop_back();
    CHECK(mentions(message<std::invalid_argument>([&] { layer.gate(); }), {"scales", "1022", "1024"}));
    layer.experts = 60;
    CHECK(mentions(message<std::invalid_argument>([&] { layer.gate(); }), {"experts", "60", "8"}));
}

TEST_CASE("context: pipelines are built once, whoever asks; errors carry the device's words") {
    const FusedConstants constants{true, false, 1536, 136, 5};
    std::vector<const Pipeline *> seen(8);
    std::vector<std::thread> threads;
    for (auto &slot : seen) {
        threads.emplace_back([&] { slot = &context()->pipeline(Kernel::route_fused_rows_last, constants); });
    }
    for (auto &thread : threads) thread.join();
    for (const Pipeline *pipeline : seen) CHECK(pipeline == seen[0]);
    CHECK(std::string(seen[0]->state->label()->utf8String()) == "route_fused_rows_last");
    CHECK(seen[0]->max_threads >= 64);

    ContextOptions broken;
    broken.shader_text = "this is not a shader";
    CHECK(mentions(message<DeviceError>([&] { Context::create(context()->device(), broken); }),
                   {"shaders", ":"}));
    CHECK(mentions(message<std::invalid_argument>([&] { Context::create(nullptr); }), {"device", "null"}));
    CHECK(mentions(
        message<std::bad_alloc>([&] { new_shared_buffer(context()->device(), SIZE_MAX / 2, "huge"); }),
        {"huge", "at most"}));
}
