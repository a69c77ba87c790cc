// What the host pays: a message, a plan, an encoded route, a command buffer from commit to completion.
// The kernels' own time is the business of `qwisp-native bench`.
#include <benchmark/benchmark.h>

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

// Into the device's own encoder, thousands of routes a command buffer that is never committed.
void encode(benchmark::State &state) {
    AutoreleaseScope pool;
    const timing::Workload workload(context(), one_layer(), timing::fill_rows);
    const RoutePlan planned = plan_route(context(), request(kVariants[state.range(0)]));
    RouteOperands operands;
    operands.x = workload.x(0);
    operands.gate = &workload.gate(0, 0);
    operands.scratch = &workload.scratch(0, 0);
    MTL::ComputeCommandEncoder *encoder = nullptr;
    int64_t encoded = 0;
    for (auto _ : state) {
        if (encoded++ % 1000 == 0) {
            state.PauseTiming();
            if (encoder) encoder->endEncoding();
            encoder = context()->queue()->commandBuffer()->computeCommandEncoder();
            state.ResumeTiming();
        }
        encode_moe_route_rows(encoder, planned, operands);
    }
    if (encoder) encoder->endEncoding();
}
BENCHMARK(encode)->ArgName("variant")->DenseRange(0, 2)->Iterations(10000);

void commit_and_wait(benchmark::State &state) {
    timing::DispatchProbe probe(context(), state.range(0));
    for (auto _ : state) {
        benchmark::DoNotOptimize(probe.run(timing::Work::empty, timing::Order::serial, state.range(0)));
    }
}
BENCHMARK(commit_and_wait)->ArgName("dispatches")->Arg(1)->Arg(40)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
