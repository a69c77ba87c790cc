// The executor: what wrong kernels are told.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "simt_fixture.h"

using namespace qwisp;
using namespace qwisp::test;

namespace {

// One threadgroup of 64 threads: out[t] = f(in, shift).
std::string shifted(Simt &simt, const char *kernel, int shift, size_t in_offset = 0) {
    Array<uint32_t> in(simt.driver, 64), out(simt.driver, 64);
    std::iota(in.data(), in.data() + 64, 0);
    return simt.run(kernel, {in.binding(in_offset), out.binding(), bytes(&shift, 4)}, {1, 1, 1}, 64);
}

std::string simple(Simt &simt, const char *kernel, uint64_t threads = 64) {
    Array<uint32_t> out(simt.driver, 1024);
    return simt.run(kernel, {out.binding(), out.binding()}, {2, 1, 1}, threads);
}

}  // namespace

TEST_CASE("reads and writes out of bounds") {
    Simt simt;
    CHECK(shifted(simt, "copy_shifted", 0) == "");
    CHECK(shifted(simt, "copy_shifted", 1) ==
          "kernel copy_shifted: out of bounds: 4-byte read at byte offset 256 of argument 'in' (buffer 0), "
          "length 256 "
          "bytes; threadgroup (0, 0, 0), thread 63 (simdgroup 1, lane 31), natural order");
    contains(shifted(simt, "copy_shifted", -3), "byte offset -12 of argument 'in'");
    contains(shifted(simt, "copy_shifted", 0, 128),
             "byte offset 128 of argument 'in' (buffer 0), length 128");
    contains(shifted(simt, "store_shifted", 2),
             "4-byte write at byte offset 256 of argument 'out' (buffer 1)");
    contains(shifted(simt, "store_shifted", 0x20000000), "byte offset 2147483648");
    contains(shifted(simt, "load_words", 2), "misaligned: 4-byte read at byte offset 2");
    contains(shifted(simt, "copy_shifted", 0, 2), "misaligned: 4-byte read at byte offset 0");
    contains(shifted(simt, "load_words", 4), "out of bounds");

    simt.driver.set_shuffle_seed(99);
    contains(shifted(simt, "copy_shifted", 1), ", seed 99");
}

TEST_CASE("a fault names the buffer's label, leaves neighbours alone and ends the dispatch") {
    Simt simt;
    Array<uint32_t> out(simt.driver, 256);
    out.memory->label.set("gate rows");
    Binding part = out.binding();
    part.length = 4 * 60;
    const int shift = 0;
    const std::string error = simt.run("store_shifted", {{}, part, bytes(&shift, 4)}, {8, 1, 1}, 64);
    contains(error, "argument 'out' (buffer 1, label 'gate rows')");
    contains(error, "threadgroup (0, 0, 0), thread 60 ");
    CHECK(out[59] == 59);
    CHECK(std::count(out.data() + 60, out.data() + 256, 0u) == 196);
}

TEST_CASE("arguments that are missing, short or read-only") {
    Simt simt;
    Array<uint32_t> a(simt.driver, 64);
    const int16_t small = 0;
    contains(simt.run("copy_shifted", {a.binding(), a.binding()}, {1, 1, 1}, 64),
             "'args' (buffer 2) is not bound");
    contains(simt.run("copy_shifted", {a.binding(), a.binding(), bytes(&small, 2)}, {1, 1, 1}, 64),
             "'args' (buffer 2) needs 4 bytes, 2 are bound");
    contains(simt.run("store_shifted", {{}, bytes(&small, 2), bytes(&small, 2)}, {1, 1, 1}, 64),
             "'out' (buffer 1) may be written, but bytes are bound");
    Binding wrong = a.binding();
    wrong.offset = 8;
    contains(simt.run("partial", {wrong}, {1, 1, 1}, 64), "do not fit its buffer");
    contains(simt.run("partial", {a.binding()}, {1, 1, 1}, 1025), "1025 x 1 x 1 threads, the limit is 1024");
    contains(simt.run("partial", {a.binding()}, {1, 1, 1}, 0), "0 threads");
    contains(simt.run("partial", {a.binding()}, {uint64_t{1} << 32, 1, 1}, 1), "too many threadgroups");
}

TEST_CASE("threadgroup memory: bounds, uninitialised reads, size") {
    Simt simt;
    CHECK(shifted(simt, "array_access", 15) == "");
    CHECK(shifted(simt, "array_access", 47) == "");
    contains(shifted(simt, "array_access", 16),
             "uninitialised: 4-byte read at byte offset 64 of threadgroup array 'row', length 256 bytes");
    contains(shifted(simt, "array_access", 64),
             "out of bounds: 4-byte read at byte offset 256 of threadgroup array 'row'");
    contains(simple(simt, "large_arrays"),
             "threadgroup array 'more' needs 32772 bytes of threadgroup memory in all, the limit is 32768");
    contains(simple(simt, "branching_arrays"), "threads disagree on threadgroup array 'low' or 'high'");
}

TEST_CASE("divergent barriers") {
    Simt simt;
    const std::string early = simple(simt, "early_return");
    contains(early, "kernel early_return: divergent barrier: threads 0-49 at threadgroup_barrier (line ");
    contains(early, "threads 50-63 finished; threadgroup (0, 0, 0), natural order");
    const std::string two = simple(simt, "two_barriers");
    contains(two, "divergent barrier: threads 0-31 at threadgroup_barrier (line ");
    contains(two, ", threads 32-63 at threadgroup_barrier (line ");
}

TEST_CASE("divergent simdgroup operations") {
    Simt simt;
    const std::string mixed = simple(simt, "mixed_operations");
    contains(mixed, "divergent simdgroup operation: threads 0-7 at simd_sum (line ");
    contains(mixed, "threads 8-31 at simd_max (line ");
    contains(mixed, "threadgroup (0, 0, 0), simdgroup 0, natural order");
    const std::string barrier = simple(simt, "barrier_or_sum");
    contains(barrier, "thread 33 at threadgroup_barrier");
    contains(barrier, "simdgroup 1");
    contains(simple(simt, "half_simdgroup"), "threads 0-15 at simd_sum (line ");
    contains(simple(simt, "half_simdgroup"), "threads 16-31 finished");
    contains(simple(simt, "wrong_lane"), "operand 32 of lane 31 names a lane that does not exist (32 lanes)");
    contains(simple(simt, "wrong_mask"), "operand 2 of lane 7 differs from lane 0's");
}

TEST_CASE("runaways end") {
    simt::RunawayLimits limits;
    limits.steps = 100'000;
    limits.accesses = 100'000;
    Simt simt(limits);
    CHECK(simple(simt, "partial") == "");
    contains(simple(simt, "spin_on_load"),
             "runaway: more than 100000 accesses of one threadgroup to argument 'flag' (buffer 0)");
    contains(simple(simt, "spin_on_atomic"), "runaway: more than 100000 accesses");
    limits.accesses = int64_t{1} << 40;
    Simt other(limits);
    contains(simple(other, "spin_on_barrier"), "runaway: more than 100000 switches between the threads");
}

TEST_CASE("after a fault everything is as before") {
    Simt simt;
    for (const std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(5)}) {
        simt.driver.set_shuffle_seed(seed);
        for (int i = 0; i < 20; i++) {
            contains(simple(simt, "deep_fault", 1024), "thread 7 (simdgroup 0, lane 7)");
            contains(simple(simt, "early_return", 1024), "divergent barrier");
            Array<uint32_t> out(simt.driver, 1024);
            REQUIRE(simt.run("partial", {out.binding()}, {1, 1, 1}, 1024) == "");
        }
    }
}
