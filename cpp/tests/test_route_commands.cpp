// What a route encodes, command by command, and how it takes a device that fails.
#include <atomic>

#include "cpu_backed_driver.h"
#include "metal_runtime/device/recording.h"
#include "metal_runtime/device/testing.h"
#include "metal_runtime/software_device.h"
#include "route_fixture.h"

using namespace qwisp;
using namespace qwisp::test;
using metal::RecordedBinding;
using metal::RecordedCommand;
using metal::Recording;

namespace {

template <typename Args>
RecordedBinding bytes(uint32_t slot, const Args &args) {
    const auto *first = reinterpret_cast<const std::byte *>(&args);
    return {slot, "", 0, {first, first + sizeof args}};
}

RecordedCommand command(const char *kernel, std::vector<RecordedBinding> bindings,
                        std::array<uint64_t, 3> groups, uint64_t threads) {
    return {RecordedCommand::Kind::dispatch_groups, kernel, std::move(bindings), groups, {threads, 1, 1}};
}

// Two rows of H=512, E=64, K=8, with everything that can be asked for.
struct Full {
    std::shared_ptr<Gate> gate = random_layer(512, 64, 1).gate();
    std::shared_ptr<RouteScratch> scratch = RouteScratch::create(context(), 2, 64, 8);
    BufferPtr x = upload(Halfs(3 * 512), "x"), resident = upload(Ints(64), "resident");
    BufferPtr diag_inds = upload(Ints(6 * 4 * 8), "diag_inds"),
              diag_logits = upload(Halfs(3 * 64), "diag_logits");
    BufferPtr table = upload(Ints(70), "table");
    RouteBias bias{resident.get(), 0.5f};
    RouteDiag diag{diag_inds.get(), diag_logits.get(), {.layer = 2, .layers = 3, .slot = 1, .max_rows = 4}};
    Remap remap{table.get(), 70};

    RouteOperands operands(bool all) const { return operands(all, all, all); }
    RouteOperands operands(bool with_bias, bool with_diag, bool with_remap) const {
        RouteOperands o{.x = x.get(), .x_offset = 1024, .gate = gate.get(), .scratch = scratch.get()};
        if (with_bias) o.bias = &bias;
        if (with_diag) o.diag = &diag;
        if (with_remap) o.remap = &remap;
        return o;
    }
};

std::vector<RecordedCommand> record(const RouteOperands &operands, Fuse fuse,
                                    MTL::DispatchType type = MTL::DispatchTypeSerial) {
    const RoutePlan plan = plan_route(context(), route_request(operands, 2, fuse, false));
    Recording recording(context()->device(), type);
    encode_moe_route_rows(recording.encoder(), plan, operands);
    Recording again(context()->device(), type);
    encode_moe_route_rows(again.encoder(), plan, operands);
    CHECK(recording.commands() == again.commands());
    return recording.commands();
}

const RecordedCommand kQmm = command("qmm8_rows",
                                     {{kQmmX, "x", 1024, {}},
                                      {kQmmWeight, "gate.weight", 0, {}},
                                      {kQmmScales, "gate.scales", 0, {}},
                                      {kQmmBiases, "gate.biases", 0, {}},
                                      {kQmmLogits, "scratch.logits", 0, {}},
                                      bytes(kQmmArgs, QmmArgs{512, 64})},
                                     {2, 8, 1}, 64);
const RecordedCommand kTopk = command("route_top8_rows",
                                      {{kTopkLogits, "scratch.logits", 0, {}},
                                       {kTopkInds, "scratch.inds", 0, {}},
                                       {kTopkScores, "scratch.scores", 0, {}},
                                       bytes(kTopkArgs, TopkArgs{64, 8, 0})},
                                      {2, 1, 1}, 256);
const RecordedCommand kBiasedTopk = command("route_top8_rows_bias",
                                            {{kTopkLogits, "scratch.logits", 0, {}},
                                             {kTopkInds, "scratch.inds", 0, {}},
                                             {kTopkScores, "scratch.scores", 0, {}},
                                             bytes(kTopkArgs, TopkArgs{64, 8, 0.5f}),
                                             {kTopkResident, "resident", 0, {}}},
                                            {2, 1, 1}, 256);
const RecordedCommand kDiag = command("diag_copy_route",
                                      {{kDiagInds, "scratch.inds", 0, {}},
                                       {kDiagLogits, "scratch.logits", 0, {}},
                                       {kDiagIndsOut, "diag_inds", 5 * 4 * 8 * 4, {}},
                                       {kDiagLogitsOut, "diag_logits", 2 * 64 * 2, {}},
                                       bytes(kDiagArgs, DiagArgs{16, 0})},
                                      {1, 1, 1}, 256);
const RecordedCommand kRemap = command("slot_remap_rows",
                                       {{kRemapInds, "scratch.inds", 0, {}},
                                        {kRemapTable, "table", 0, {}},
                                        bytes(kRemapArgs, RemapArgs{16, 70})},
                                       {1, 1, 1}, 256);

RecordedCommand fused(const char *kernel, bool all, std::array<uint64_t, 3> groups, uint64_t threads) {
    RecordedCommand c = command(kernel,
                                {{kFusedX, "x", 1024, {}},
                                 {kFusedWeight, "gate.weight", 0, {}},
                                 {kFusedScales, "gate.scales", 0, {}},
                                 {kFusedBiases, "gate.biases", 0, {}},
                                 {kFusedInds, "scratch.inds", 0, {}},
                                 {kFusedScoresOut, "scratch.scores", 0, {}},
                                 bytes(kFusedArgs, FusedArgs{all ? 0.5f : 0.0f})},
                                groups, threads);
    if (all) {
        c.bindings.push_back({kFusedLogits, "scratch.logits", 0, {}});
        c.bindings.push_back({kFusedResident, "resident", 0, {}});
    }
    if (c.pipeline != "route_fused_rows_single") {
        c.bindings.push_back({kFusedArrivals, "scratch.arrivals", 0, {}});
        c.bindings.push_back({kFusedWords, "scratch.words", 0, {}});
    }
    return c;
}

// A cpu device whose command buffers fail on request.
class FailingDriver final : public CpuBackedDriver {
  public:
    std::atomic<bool> failing = false;

    std::string run(const std::vector<metal::Command> &commands) override {
        const std::string fault = cpu_.run(commands);
        return failing ? "the cable was pulled" : fault;
    }
};

}  // namespace

TEST_CASE("flag off and auto encode exactly the incumbent pair") {
    const Full full;
    for (Fuse fuse : {Fuse::off, Fuse::automatic, Fuse::pair}) {
        CHECK(record(full.operands(false), fuse) == std::vector{kQmm, kTopk});
        CHECK(record(full.operands(true), fuse) == std::vector{kQmm, kBiasedTopk, kDiag, kRemap});
    }
}

TEST_CASE("fused variants encode one dispatch, then diag and remap") {
    const Full full;
    for (bool all : {false, true}) {
        std::vector last{fused("route_fused_rows_last", all, {2, 8, 1}, 64)};
        std::vector single{fused("route_fused_rows_single", all, {2, 1, 1}, 512)};
        std::vector split{fused("route_fused_rows_split", all, {2, 32, 1}, 256)};
        for (auto *commands : {&last, &single, &split}) {
            if (all) commands->insert(commands->end(), {kDiag, kRemap});
        }
        CHECK(record(full.operands(all), Fuse::on) == last);
        CHECK(record(full.operands(all), Fuse::last) == last);
        CHECK(record(full.operands(all), Fuse::single) == single);
        CHECK(record(full.operands(all), Fuse::split_last) == split);
    }
}

TEST_CASE("a bias of eps 0 encodes the unbiased kernels") {
    Full full;
    full.bias.eps = 0;
    RouteOperands operands = full.operands(false);
    operands.bias = &full.bias;
    CHECK(record(operands, Fuse::pair) == std::vector{kQmm, kTopk});
    CHECK(record(operands, Fuse::last) == std::vector{fused("route_fused_rows_last", false, {2, 8, 1}, 64)});
}

TEST_CASE("a concurrent encoder gets a barrier between two steps and nowhere else") {
    const Full full;
    for (Fuse fuse : {Fuse::pair, Fuse::single, Fuse::last}) {
        for (bool all : {false, true}) {
            std::vector<RecordedCommand> wanted;
            for (const RecordedCommand &step : record(full.operands(all), fuse)) {
                if (!wanted.empty()) wanted.push_back({RecordedCommand::Kind::barrier, "", {}, {}, {}});
                wanted.push_back(step);
            }
            CHECK(record(full.operands(all), fuse, MTL::DispatchTypeConcurrent) == wanted);
        }
    }
}

TEST_CASE("every barrier is needed, and none is missing") {
    const Full full;
    uint64_t barriers = 0;
    for (const Fuse fuse : {Fuse::pair, Fuse::single, Fuse::last, Fuse::split_pair, Fuse::split_last}) {
        for (uint32_t extras = 0; extras < 16; extras++) {
            const RouteOperands operands = full.operands(extras & 1, (extras & 2) != 0, (extras & 4) != 0);
            const RoutePlan plan = plan_route(context(), route_request(operands, 2, fuse, (extras & 8) != 0));
            AutoreleaseScope pool;
            MTL::CommandBuffer *commands = context()->queue()->commandBuffer();
            MTL::ComputeCommandEncoder *encoder =
                commands->computeCommandEncoder(MTL::DispatchTypeConcurrent);
            encode_moe_route_rows(encoder, plan, operands);  // throws if one is missing
            encoder->endEncoding();
            commands->commit();
            commands->waitUntilCompleted();
            if (!metal::driver_of(context()->device())) continue;  // only a software device tells
            CHECK(metal::barrier_counts(commands).all == plan.barriers());
            CHECK(metal::barrier_counts(commands).superfluous == 0);
            for (uint64_t left_out = 0; left_out < plan.barriers(); left_out++) {
                INFO(variant_name(plan.variant), " extras ", extras, " without barrier ", left_out);
                MTL::CommandBuffer *broken = context()->queue()->commandBuffer();
                MTL::ComputeCommandEncoder *one_less =
                    broken->computeCommandEncoder(MTL::DispatchTypeConcurrent);
                metal::ignore_barrier(one_less, left_out);
                CHECK_THROWS_WITH_AS(encode_moe_route_rows(one_less, plan, operands),
                                     doctest::Contains("missing barrier: kernel "), std::exception);
                one_less->endEncoding();
                barriers++;
            }
        }
    }
    if (metal::driver_of(context()->device())) CHECK(barriers == 2 * 32 + 3 * 16);
}

TEST_CASE("what is refused encodes nothing") {
    const Full full;
    const RouteOperands good = full.operands(true);
    const RoutePlan plan = plan_route(context(), route_request(good, 2, Fuse::pair, false));
    RouteOperands bad = good;
    bad.remap = nullptr;  // the last thing checked
    Recording recording(context()->device());
    CHECK_THROWS_AS(encode_moe_route_rows(recording.encoder(), plan, bad), std::invalid_argument);
    CHECK(recording.commands().empty());
}

TEST_CASE("router: a failed command buffer raises its message, writes nothing and spoils nothing") {
    const auto driver = std::make_shared<FailingDriver>();
    const auto device = NS::TransferPtr(metal::new_device(driver));
    const auto failing = Context::create(device.get());
    const Layer layer = random_layer(512, 64, 3);
    const auto gate = Gate::create(failing, 64, 512, layer.weight, std::as_bytes(std::span(layer.scales)),
                                   std::as_bytes(std::span(layer.biases)));
    const Halfs x = random_rows(3, 512, 4);
    for (Fuse fuse : {Fuse::pair, Fuse::single, Fuse::last}) {
        Router router(gate, 8, fuse);
        const Routed wanted = run(router, x);
        Ints inds(24, -1);
        Halfs scores(24, 1);
        driver->failing = true;
        const std::string text = message<DeviceError>([&] {
            router.route(
                {.rows = 3, .x = std::as_bytes(std::span(x)), .bias = {}, .fuse = {}},
                {std::as_writable_bytes(std::span(inds)), std::as_writable_bytes(std::span(scores)), {}});
        });
        driver->failing = false;
        CHECK(mentions(text, {"the cable was pulled"}));
        CHECK(inds == Ints(24, -1));
        CHECK(scores == Halfs(24, 1));
        CHECK(run(router, x) == wanted);
    }
}
