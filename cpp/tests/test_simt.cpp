// The executor and the CPU driver: what right kernels compute.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "metal_runtime/drivers/cpu/cpu_module.h"
#include "metal_runtime/drivers/cpu/sha256.h"
#include "simt_fixture.h"

using namespace qwisp;
using namespace qwisp::test;

namespace {

std::vector<uint32_t> reversed_rows(Simt &simt, uint64_t groups, uint64_t threads) {
    const size_t n = groups * threads;
    Array<uint32_t> in(simt.driver, n), out(simt.driver, n);
    std::iota(in.data(), in.data() + n, 0);
    CHECK(simt.run("reverse", {in.binding(), out.binding()}, {groups, 1, 1}, threads) == "");
    return out.values();
}

std::vector<uint32_t> tickets(Simt &simt, std::optional<uint64_t> seed) {
    Array<uint32_t> ticket(simt.driver, 1), out(simt.driver, 6 * 64 * 2);
    simt.driver.set_shuffle_seed(seed);
    CHECK(simt.run("order", {ticket.binding(), out.binding()}, {6, 1, 1}, 64) == "");
    return out.values();
}

float butterfly(std::vector<float> lanes) {
    for (size_t mask = 16; mask > 0; mask /= 2) {
        std::vector<float> next(32);
        for (size_t l = 0; l < 32; l++) next[l] = lanes[l] + lanes[l ^ mask];
        lanes = next;
    }
    return lanes[0];
}

}  // namespace

TEST_CASE("barriers order threadgroup memory, for any size and seed") {
    Simt simt;
    for (const std::optional<uint64_t> seed :
         {std::optional<uint64_t>(), std::optional<uint64_t>(0), {7}, {8}}) {
        simt.driver.set_shuffle_seed(seed);
        for (const uint64_t threads : {32u, 64u, 256u, 1024u}) {
            const auto out = reversed_rows(simt, 3, threads);
            for (size_t i = 0; i < out.size(); i++) {
                REQUIRE(out[i] == i / threads * threads + threads - 1 - i % threads + 2);
            }
        }
    }
}

TEST_CASE("a seed changes the order of threads and threadgroups, no seed means the natural one") {
    Simt simt;
    const auto natural = tickets(simt, std::nullopt);
    for (size_t i = 0; i < natural.size(); i += 2) REQUIRE(natural[i] == i / 128 * 128 + i / 2 % 64);
    const auto one = tickets(simt, 1), two = tickets(simt, 2);
    CHECK(one != natural);
    CHECK(one != two);
    CHECK(one == tickets(simt, 1));
    CHECK(simt.driver.shuffle_seed() == 1);
    for (auto order : {one, two}) {
        std::sort(order.begin(), order.end());
        for (size_t i = 0; i < order.size(); i++) REQUIRE(order[i] == i);
    }
}

TEST_CASE("a seed also changes the order of dispatches within a phase, and only there") {
    Simt simt;
    std::string error;
    const auto kernel = simt.module->specialise("order", {}, &error);
    const auto second_came_first = [&](std::optional<uint64_t> seed, uint32_t second_phase) {
        Array<uint32_t> ticket(simt.driver, 1), first(simt.driver, 64), second(simt.driver, 64);
        const std::vector<Binding> bindings[] = {{ticket.binding(), first.binding()},
                                                 {ticket.binding(), second.binding()}};
        Dispatch dispatches[2]{};
        for (int i = 0; i < 2; i++) {
            dispatches[i].kernel = kernel.get();
            dispatches[i].bindings = bindings[i];
            dispatches[i].groups = {1, 1, 1};
            dispatches[i].threads = {32, 1, 1};
            dispatches[i].phase = i == 0 ? 1 : second_phase;
        }
        simt.driver.set_shuffle_seed(seed);
        CHECK(simt.driver.run({dispatches[0], dispatches[1]}) == "");
        return second[0] < first[0];
    };
    int swaps = 0;
    for (uint64_t seed = 0; seed < 16; seed++) {
        swaps += second_came_first(seed, 1);
        CHECK(!second_came_first(seed, 2));
    }
    CHECK(swaps > 0);
    CHECK(swaps < 16);
    CHECK(!second_came_first(std::nullopt, 1));
}

TEST_CASE("atomics") {
    Simt simt;
    Array<uint32_t> count(simt.driver, 3);
    CHECK(simt.run("count_up", {count.binding()}, {4, 1, 1}, 96) == "");
    CHECK(count.values() == std::vector<uint32_t>{4 * (5 + 96), 15, 4});
}

TEST_CASE("simdgroup reductions follow the butterfly") {
    Simt simt;
    Array<float> in(simt.driver, 1024), out(simt.driver, 5 * 1024);
    std::mt19937 random(3);
    for (size_t i = 0; i < 1024; i++) {
        in[i] =
            std::ldexp(static_cast<float>(random() % 2001) - 1000.0f, static_cast<int>(random() % 40) - 20);
    }
    in[70] = NAN;
    in[100] = -0.0f;
    CHECK(simt.run("sums", {in.binding(), out.binding()}, {1, 1, 1}, 1024) == "");
    for (size_t t = 0; t < 1024; t++) {
        const std::vector<float> lanes(&in[t / 32 * 32], &in[t / 32 * 32] + 32);
        const float sum = butterfly(lanes);
        REQUIRE((out[t] == sum || (std::isnan(sum) && std::isnan(out[t]))));
        float largest = -INFINITY;
        for (const float lane : lanes) largest = std::fmax(largest, lane);
        REQUIRE(out[1024 + t] == largest);
        REQUIRE(out[2048 + t] == static_cast<float>(t / 32 * 32 * 32 + 31 * 16));
        REQUIRE(out[3072 + t] == static_cast<float>(t / 32 * 32) - 40.0f);
        REQUIRE(out[4096 + t] == 1.0f);
    }
}

TEST_CASE("shuffles move the bits of halves") {
    Simt simt;
    Array<uint16_t> in(simt.driver, 32), out(simt.driver, 96);
    for (size_t l = 0; l < 32; l++) in[l] = static_cast<uint16_t>(0xff00 + l * 3);
    CHECK(simt.run("shuffles", {in.binding(), out.binding()}, {1, 1, 1}, 32) == "");
    for (size_t l = 0; l < 32; l++) {
        REQUIRE(out[l] == in[(l * 7 + 3) % 32]);
        REQUIRE(out[32 + l] == in[l ^ 5]);
        REQUIRE(out[64 + l] == in[9]);
    }
}

TEST_CASE("a last simdgroup with fewer lanes works among those that exist") {
    Simt simt;
    Array<uint32_t> out(simt.driver, 40);
    CHECK(simt.run("partial", {out.binding()}, {1, 1, 1}, 40) == "");
    for (size_t t = 0; t < 40; t++) CHECK(out[t] == (t < 32 ? 3202 : 802));
}

TEST_CASE("positions in three dimensions") {
    Simt simt;
    Array<uint32_t> out(simt.driver, 24 * 64);
    CHECK(simt.run("where", {out.binding()}, {2, 3, 4}, 64) == "");
    for (size_t i = 0; i < out.count; i++) {
        const size_t g = i / 64, t = i % 64;
        REQUIRE(out[i] == g % 2 + 10 * (g / 2 % 3) + 100 * (g / 6) + 1000 * (t / 32) + 10000 * (t % 32));
    }
    CHECK(simt.run("where", {out.binding()}, {2, 0, 4}, 64) == "");
}

TEST_CASE("function constants and conditional arguments") {
    Simt simt;
    Array<float> out(simt.driver, 1);
    Array<uint32_t> extra(simt.driver, 1);
    ConstantValues values{{0, true}, {1, uint32_t{21}}, {2, 0.5f}};
    CHECK(simt.run("constants", {out.binding(), extra.binding()}, {1, 1, 1}, 1, values) == "");
    CHECK(out[0] == 10.5f);
    CHECK(extra[0] == 21);
    values[0] = false;
    CHECK(simt.run("constants", {out.binding()}, {1, 1, 1}, 1, values) == "");
    values[1] = uint32_t{13};
    contains(simt.run("constants", {out.binding()}, {1, 1, 1}, 1, values),
             "null pointer: argument 'extra' (buffer 1)");
    values[1] = 1.0f;
    contains(simt.run("constants", {out.binding()}, {1, 1, 1}, 1, values),
             "type uint for its function constant 'kNumber'");
    values.erase(2);
    values[1] = uint32_t{1};
    contains(simt.run("constants", {out.binding()}, {1, 1, 1}, 1, values), "'kFactor' (index 2)");
    contains(simt.run("undeclared", {extra.binding()}, {1, 1, 1}, 1),
             "'kNumber' (index 1) is read but has no value");
    contains(simt.run("nothing", {}, {1, 1, 1}, 1), "no function 'nothing'");
}

TEST_CASE("reflection follows from the parameters") {
    Simt simt;
    const auto &functions = simt.module->functions();
    const auto named = [&](const std::string &name) {
        return *std::find_if(functions.begin(), functions.end(), [&](auto &f) { return f.name == name; });
    };
    const FunctionInfo copy = named("copy_shifted"), constants = named("constants");
    REQUIRE(copy.arguments.size() == 3);
    CHECK(copy.constants.empty());
    CHECK(copy.arguments[0].name == "in");
    CHECK(!copy.arguments[0].writes);
    CHECK(copy.arguments[1].writes);
    CHECK(copy.arguments[2].is_constant);
    CHECK(copy.arguments[2].index == 2);
    CHECK(copy.arguments[2].element_size == 4);
    CHECK(constants.arguments[1].required_by == 0);
    REQUIRE(constants.constants.size() == 3);
    CHECK(constants.constants[2].name == "kFactor");
    CHECK(constants.constants[2].type == ConstantType::float32);
    std::string error;
    CHECK(simt.module->specialise("reverse", {}, &error)->threadgroup_memory() == 4096);
    CHECK(simt.module->specialise("order", {}, &error)->threadgroup_memory() == 0);
}

TEST_CASE("kernels have their own floating-point environment") {
    Simt simt;
    Array<float> in(simt.driver, 7), out(simt.driver, 3);
    const float values[] = {1e-30f, 1e-10f, 1.0f, 0x1p-24f, 1.0f + 0x1p-13f, 1.0f - 0x1p-13f, -1.0f};
    std::copy(std::begin(values), std::end(values), in.data());
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);  // flush subnormals to zero
#endif
    CHECK(simt.run("rounding", {in.binding(), out.binding()}, {1, 1, 1}, 1) == "");
    CHECK(std::fegetround() == FE_UPWARD);
#if defined(__x86_64__)
    CHECK((_mm_getcsr() & 0x8040) == 0x8040);
    _mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
    std::fesetround(FE_TONEAREST);
    CHECK(out[0] == 1e-40f);
    CHECK(out[1] == 1.0f);
    CHECK(out[2] == 0.0f);  // -2^-26 with contraction
}

TEST_CASE("a memory model may take every access") {
    Simt simt;
    std::string error;
    const auto kernel = simt.module->specialise("count_up", {}, &error);
    Array<uint32_t> count(simt.driver, 3);
    const std::vector<Binding> bindings{count.binding()};
    Dispatch dispatch{};
    dispatch.kernel = kernel.get();
    dispatch.bindings = bindings;
    dispatch.groups = {4, 1, 1};
    dispatch.threads = {96, 1, 1};
    simt::Launch launch{};
    CHECK(static_cast<CpuKernel &>(*kernel).prepare(dispatch, launch) == "");
    launch.arguments[0].fast_length = 0;
    CHECK(simt::execute(launch) == "");
    CHECK(count.values() == std::vector<uint32_t>{4 * (5 + 96), 15, 4});
}

TEST_CASE("memory, copies and fills") {
    CpuDriver driver;
    CHECK(driver.name() == "cpu");
    CHECK(driver.allocate(SIZE_MAX - 5, Storage::shared) == nullptr);
    CHECK(driver.allocate(driver.limits().max_buffer_length + 1, Storage::shared) == nullptr);
    Array<uint8_t> a(driver, 100), b(driver, 100);
    CHECK(a.memory->gpu_address() % 16384 == 0);
    CHECK(std::count(a.data(), a.data() + 100, 0) == 100);
    const auto hidden = driver.allocate(100, Storage::private_);
    CHECK(hidden->contents() == nullptr);
    CHECK(driver.run({Fill{a.memory.get(), 10, 5, 7}, Copy{a.memory.get(), 9, hidden.get(), 0, 8},
                      Copy{hidden.get(), 0, b.memory.get(), 92, 8}}) == "");
    CHECK(b[91] == 0);
    CHECK(b[92] == 0);
    CHECK(b[93] == 7);
    CHECK(b[98] == 0);
    contains(driver.run({Fill{a.memory.get(), 96, 5, 7}}), "leaves its buffer");
    contains(driver.run({Copy{a.memory.get(), 96, b.memory.get(), SIZE_MAX, 2}}), "leaves its buffer");
    uint32_t own[4] = {1, 2, 3, 4};
    const auto wrapped = driver.wrap(own, sizeof own);
    CHECK(driver.run({Fill{wrapped.get(), 4, 4, 0}}) == "");
    CHECK(own[1] == 0);
}

TEST_CASE("only texts of this build run, by exact text and known macro") {
    Simt simt;
    std::string error;
    CHECK(simt.driver.compile(test_text() + " ", {}, &error) == nullptr);
    contains(error, "runs only shader text compiled into this build (sha256 ");
    CHECK(simt.driver.compile(test_text(), {{"FAST", "1"}}, &error) == nullptr);
    contains(error, "macro FAST=1");
    CHECK(simt.driver.compile(test_text(), {{"QWISP_CONTRACT_COMPILER", "0"}}, &error) == nullptr);
    contains(error, "macro QWISP_CONTRACT_COMPILER=0");
    CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    contains(simt::load_kernel_image("/nothing.so"), "cannot load");
}

TEST_CASE("the contract macro picks an image with contraction") {
    Simt simt;
    const std::map<std::string, std::string> macros{{"QWISP_CONTRACT_COMPILER", "1"}};
    std::string error;
    CHECK(simt.driver.compile(test_text(), macros, &error) == nullptr);
    contains(error, "and contraction");
    CHECK(simt::load_kernel_image(QWISP_TEST_CONTRACTED_IMAGE) == "");
    simt.module = simt.driver.compile(test_text(), macros, &error);
    REQUIRE_MESSAGE(simt.module != nullptr, error);
    Array<float> in(simt.driver, 7), out(simt.driver, 3);
    const float values[] = {0, 0, 0, 0, 1.0f + 0x1p-13f, 1.0f - 0x1p-13f, -1.0f};
    std::copy(std::begin(values), std::end(values), in.data());
    CHECK(simt.run("rounding", {in.binding(), out.binding()}, {1, 1, 1}, 1) == "");
    CHECK(out[2] == -0x1p-26f);  // 0 with separate roundings
}

TEST_CASE("many threads run dispatches at once, also after a fork") {
    Simt simt;
    const auto work = [&simt] {
        for (int i = 0; i < 3; i++) {
            const auto out = reversed_rows(simt, 2, 256);
            CHECK(out[0] == 257);
        }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) threads.emplace_back(work);
    for (std::thread &thread : threads) thread.join();
    work();
    const pid_t child = fork();
    if (child == 0) _exit(reversed_rows(simt, 2, 256)[0] == 257 ? 0 : 1);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}
