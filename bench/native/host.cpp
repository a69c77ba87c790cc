// What the host pays: a message, a plan, an encoded route, a command buffer from commit to completion.
// The kernels' own time is the business of `qwisp-native bench`.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "route/devices.h"
#include "route/encode.h"
#include "timing/probe.h"
#include "timing/workload.h"

namespace {

using namespace qwisp;

std::shared_ptr<Context> context() {
    static const auto shared = [] {
        const char *wanted = std::getenv("QWISP_DEVICE");
        for (const DeviceEntry &entry : available_devices()) {
            if (!wanted || entry.kind == wanted) return Context::create(entry.device.get());
        }
        throw std::runtime_error("the device that QWISP_DEVICE asks for is not here");
    }();
    return shared;
}

timing::WorkloadOptions one_layer() {
    timing::WorkloadOptions options;
    options.layers = options.x_sets = options.in_flight = 1;
    return options;
}

RouteRequest request(Fuse fuse) {
    RouteRequest asked;
    asked.shape = one_layer().shape;
    asked.fuse = fuse;
    return asked;
}

constexpr Fuse kVariants[] = {Fuse::pair, Fuse::single, Fuse::last};

void message_send(benchmark::State &state) {
    const MTL::Device *device = context()->device();
    for (auto _ : state) benchmark::DoNotOptimize(device->maxBufferLength());
}
BENCHMARK(message_send);

void plan(benchmark::State &state) {
    const RouteRequest asked = request(kVariants[state.range(0)]);
    for (auto _ : state) benchmark::DoNotOptimize(plan_route(context(), asked));
}
BENCHMARK(plan)->ArgName("variant")->DenseRange(0, 2);

// The layers of a model into one command buffer, as an engine does it; the time is that of one layer.
void encode(benchmark::State &state) {
    AutoreleaseScope pool;
    const timing::Workload workload(context(), one_layer(), timing::fill_rows);
    const RoutePlan planned = plan_route(context(), request(kVariants[state.range(0)]));
    RouteOperands operands;
    operands.x = workload.x(0);
    operands.gate = &workload.gate(0, 0);
    operands.scratch = &workload.scratch(0, 0);
    constexpr int kLayers = 40;
    for (auto _ : state) {
        AutoreleaseScope each;
        MTL::CommandBuffer *commands = context()->queue()->commandBuffer();
        MTL::ComputeCommandEncoder *encoder = commands->computeCommandEncoder();
        const auto start = std::chrono::steady_clock::now();
        for (int layer = 0; layer < kLayers; layer++) encode_moe_route_rows(encoder, planned, operands);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        state.SetIterationTime(took.count() / kLayers);
        encoder->endEncoding();
    }
}
BENCHMARK(encode)->ArgName("variant")->DenseRange(0, 2)->UseManualTime()->Iterations(3000);

// Of a command buffer in which nothing is encoded: what a commit and a wait cost over the work itself.
void commit_and_wait_alone(benchmark::State &state) {
    for (auto _ : state) {
        AutoreleaseScope each;
        MTL::CommandBuffer *commands = context()->queue()->commandBuffer();
        const auto start = std::chrono::steady_clock::now();
        commands->commit();
        commands->waitUntilCompleted();
        state.SetIterationTime(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
}
BENCHMARK(commit_and_wait_alone)->UseManualTime();

void commit_and_wait(benchmark::State &state) {
    timing::DispatchProbe probe(context(), state.range(0));
    for (auto _ : state) {
        benchmark::DoNotOptimize(probe.run(timing::Work::empty, timing::Order::serial, state.range(0)));
    }
}
BENCHMARK(commit_and_wait)->ArgName("dispatches")->Arg(1)->Arg(40)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
