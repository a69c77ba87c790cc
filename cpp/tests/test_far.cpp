// Devices whose shared memory is far: kernels work on private memory alone, and the bits are those of a
// device whose memory is near. The far device here is the CPU device behind a driver that says so, and that
// refuses kernels which are handed shared memory.
#include <atomic>
#include <set>

#include "cpu_backed_driver.h"
#include "metal_runtime/software_device.h"
#include "route/commands.h"
#include "route_fixture.h"
#include "timing/planted.h"
#include "timing/probe.h"

using namespace qwisp;
using namespace qwisp::test;

namespace {

class WatchedDriver final : public CpuBackedDriver {
  public:
    explicit WatchedDriver(bool unified) : unified_(unified) {}

    std::string_view name() const override { return "watched"; }
    std::string_view device_name() const override { return "CPU, watched"; }
    metal::Limits limits() const override {
        metal::Limits limits = cpu_.limits();
        limits.unified_memory = unified_;
        return limits;
    }
    std::string run(const std::vector<metal::Command> &commands) override {
        for (const metal::Command &command : commands) {
            const auto *const dispatch = std::get_if<metal::Dispatch>(&command);
            if (!dispatch) {
                ++blits;
                continue;
            }
            for (const metal::Binding &binding : dispatch->bindings) {
                if (unified_ || !binding.memory || !binding.memory->contents()) continue;
                return "kernel " + dispatch->kernel->info().name + " works on far memory '" +
                       binding.memory->label.text() + "'";
            }
        }
        return cpu_.run(commands);
    }

    std::atomic<int> blits = 0;

  private:
    const bool unified_;
};

struct Watched {
    std::shared_ptr<WatchedDriver> driver;
    std::shared_ptr<Context> context;

    explicit Watched(bool unified) : driver(std::make_shared<WatchedDriver>(unified)) {
        const auto device = NS::TransferPtr(metal::new_device(driver));
        context = Context::create(device.get());
    }
    std::shared_ptr<Gate> gate(const Layer &layer) const {
        return Gate::create(context, layer.experts, layer.hidden, layer.weight,
                            std::as_bytes(std::span(layer.scales)), std::as_bytes(std::span(layer.biases)));
    }
};

template <typename T>
std::vector<T> read_all(const Watched &on, MTL::Buffer *buffer, size_t count) {
    std::vector<T> out(count);
    read_buffer(on.context->queue(), buffer, out.data(), count * sizeof(T));
    return out;
}

const std::vector<timing::Arm> kArms = {{"pair", Fuse::pair}, {"single", Fuse::single}, {"last", Fuse::last}};

timing::WorkloadOptions small(int64_t in_flight) {
    timing::WorkloadOptions options;
    options.shape = {3, 512, 16, 3};  // results of a length that is no multiple of 4
    options.layers = 3;
    options.in_flight = in_flight;
    return options;
}

}  // namespace

TEST_CASE("a router on a far device gives the bits of one on a near device") {
    const Watched near(true), far(false);
    Ints resident(64);
    for (size_t e = 0; e < 64; e += 3) resident[e] = 1;
    const HostBias bias{resident, 0.125f};
    const Layer layer = random_layer(512, 64, 3);
    const auto near_gate = near.gate(layer), far_gate = far.gate(layer);
    near.driver->blits = 0;
    for (const Fuse fuse : {Fuse::pair, Fuse::single, Fuse::last}) {
        for (const int64_t top_k : {1, 8}) {
            Router on_near(near_gate, top_k, fuse), on_far(far_gate, top_k, fuse);
            for (const int64_t rows : {1, 2, 5, 40, 1}) {
                const Halfs x = random_rows(rows, 512, uint32_t(rows + top_k));
                for (const HostBias *given : {static_cast<const HostBias *>(nullptr), &bias}) {
                    for (const bool logits : {false, true})
                        CHECK(run(on_far, x, given, logits) == run(on_near, x, given, logits));
                }
            }
        }
    }
    CHECK(near.driver->blits == 0);
    CHECK(far.driver->blits > 0);
}

TEST_CASE("a scratch on a far device is read back and cleared by blits") {
    const Watched near(true), far(false);
    const Layer layer = random_layer(512, 64, 4);
    const Halfs x = random_rows(3, 512, 5);
    const auto routed = [&](const Watched &on, Fuse fuse) {
        const auto gate = on.gate(layer);
        const auto scratch = RouteScratch::create(on.context, 3, 64, 3);
        CHECK(is_visible(scratch->inds()) == (&on == &near));
        const BufferPtr rows = new_working_buffer(on.context->queue(), x.data(), x.size() * 2, "x");
        const RouteOperands operands{.x = rows.get(), .gate = gate.get(), .scratch = scratch.get()};
        const RoutePlan plan = plan_route(on.context, route_request(operands, 3, fuse, true));
        AutoreleaseScope pool;
        complete(compute_commands(
            on.context->queue(), MTL::DispatchTypeSerial,
            [&](MTL::ComputeCommandEncoder *encoder) { encode_moe_route_rows(encoder, plan, operands); }));
        return Routed{read_all<int32_t>(on, scratch->inds(), 9), read_all<uint16_t>(on, scratch->scores(), 9),
                      read_all<uint16_t>(on, scratch->logits(), 3 * 64)};
    };
    for (const Fuse fuse : {Fuse::pair, Fuse::last}) CHECK(routed(far, fuse) == routed(near, fuse));

    for (const Watched *on : {&near, &far}) {
        const auto scratch = RouteScratch::create(on->context, 3, 64, 8);
        MTL::Buffer *const kept[] = {scratch->arrivals(), scratch->words()};
        fill_buffers(on->context->queue(), kept, std::byte{0xff});
        CHECK(read_all<uint32_t>(*on, scratch->words(), 3 * 64) == std::vector<uint32_t>(3 * 64, ~0u));
        scratch->reset();
        CHECK(read_all<uint32_t>(*on, scratch->words(), 3 * 64) == std::vector<uint32_t>(3 * 64));
        CHECK(read_all<uint32_t>(*on, scratch->arrivals(), 3) == std::vector<uint32_t>(3));
    }
}

TEST_CASE("the harness and the probe run on a far device, and the harness notices there what it must") {
    const Watched near(true), far(false);
    std::set<uint64_t> seen[2];
    for (const int64_t in_flight : {1, 2, 3}) {
        for (const Watched *on : {&near, &far}) {
            timing::Harness harness(on->context, kArms, small(in_flight), false);
            const auto samples = harness.run(0, 5, true);
            REQUIRE(samples.size() == 15);
            for (size_t i = 0; i < samples.size(); ++i) {
                CHECK(size_t(samples[i].arm) == timing::round_order(3, samples[i].round)[i % 3]);
                CHECK(samples[i].wall_ns > 0);
                seen[on == &far].insert(samples[i].x_hash);
            }
            CHECK(harness.outputs().difference() == "");
            for (const uint64_t compared : harness.outputs().compared()) CHECK(compared > 0);
            harness.run(5, 2, true);
            CHECK(harness.outputs().difference() == "");
        }
    }
    CHECK(seen[0].size() == 4);
    CHECK(seen[0] == seen[1]);

    timing::Harness wrong(far.context, kArms, small(2), false, timing::planted("wrong output"));
    wrong.run(0, 1, true);
    CHECK(mentions(wrong.outputs().difference(), {"round 0", "layer 0", "'single'", "'pair'"}));
    timing::Parts idle;
    idle.encode = [](MTL::ComputeCommandEncoder *, const timing::Job &) {};
    timing::Harness silent(far.context, kArms, small(2), false, idle);
    silent.run(0, 1, true);
    CHECK(mentions(silent.outputs().difference(), {"'pair'", "no results"}));
    timing::Harness unfilled(far.context, kArms, small(2), false, timing::planted("no-op prefill"));
    std::set<uint64_t> hashes;
    for (const timing::Sample &sample : unfilled.run(0, 4, true)) hashes.insert(sample.x_hash);
    CHECK(hashes.size() == 1);

    timing::DispatchProbe probe(far.context, 4);
    CHECK(probe.run(timing::Work::tiny, timing::Order::serial, 4).wall_ns > 0);
}
