// The types and mathematics of msl.h, on the host.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <type_traits>

#include "half_reference.h"
#include "metal_runtime/drivers/cpu/msl.h"

using namespace qwisp::simt;
using namespace qwisp::test;

namespace {

half from_bits(uint32_t bits) { return as_type<half>(static_cast<uint16_t>(bits)); }

}  // namespace

TEST_CASE("every half becomes its exact float and back") {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const float f = from_bits(bits);
        if (std::isnan(value_of(bits))) {
            REQUIRE(std::isnan(f));
        } else {
            REQUIRE(f == value_of(bits));
            REQUIRE(std::signbit(f) == (bits >> 15 != 0));
        }
        REQUIRE(same(half(f).bits, bits));
    }
}

TEST_CASE("float to half rounds to nearest, ties to even") {
    for (uint32_t bits = 0; bits < 0x7c00;
         bits++) {  // halfway between neighbours, and one float to each side
        const float middle =
            static_cast<float>((value_of(bits) + (bits == 0x7bff ? 65536.0 : value_of(bits + 1))) / 2);
        for (const float f : {std::nextafterf(middle, 0), middle, std::nextafterf(middle, INFINITY)}) {
            REQUIRE(half(f).bits == nearest(f));
            REQUIRE(half(-f).bits == nearest(-f));
        }
    }
    std::mt19937 random(1);
    for (int i = 0; i < 1'000'000; i++) {
        const float f = as_type<float>(static_cast<uint32_t>(random()));
        REQUIRE(same(half(f).bits, nearest(f)));
    }
    CHECK(half(1e-45f).bits == 0);
    CHECK(half(INFINITY).bits == 0x7c00);
}

TEST_CASE("half operations round the exact result once") {
    std::mt19937 random(2);
    for (int i = 0; i < 1'000'000; i++) {
        const uint32_t bits = static_cast<uint32_t>(random());
        const half a = from_bits(bits & 0xffff), b = from_bits(bits >> 16);
        const double x = float(a), y = float(b);
        REQUIRE(same((a + b).bits, nearest(x + y)));  // exact in double
        REQUIRE(same((a - b).bits, nearest(x - y)));
        REQUIRE(same((a * b).bits, nearest(x * y)));
        // The double quotient is rounded, but never onto or across a halfway point of halves: those have 12
        // bits.
        REQUIRE(same((a / b).bits, nearest(x / y)));
    }
    half sum = half(1.0f);
    sum += half(2.0f);
    CHECK(float(sum) == 3.0f);
    CHECK(float(-sum) == -3.0f);
}

TEST_CASE("functions") {
    CHECK(reverse_bits(1u) == 0x80000000u);
    CHECK(reverse_bits(0x12345678u) == 0x1e6a2c48u);
    CHECK(fmax(NAN, 1.0f) == 1.0f);
    CHECK(fmax(1.0f, NAN) == 1.0f);
    CHECK(std::isnan(fmax(NAN, NAN)));
    CHECK(fmin(NAN, -1.0f) == -1.0f);
    CHECK(as_type<uint>(1.0f) == 0x3f800000u);
    CHECK(precise::exp(-INFINITY) == 0.0f);
    CHECK(precise::exp(-2.5f) == static_cast<float>(std::exp(-2.5)));
    CHECK(fma(16777216.0f, 1.0f, 1.0f) == 16777216.0f);
    CHECK(clz(1u) == 31);
    CHECK(ctz(0u) == 32);
    CHECK(sizeof(uint3) == 16);
}

TEST_CASE("read-only memory has no way to be written") {
    using Read = decltype(std::declval<DevicePtr<const int>>()[0]);
    using Write = decltype(std::declval<DevicePtr<int>>()[0]);
    static_assert(!std::is_assignable_v<Read, int> && std::is_assignable_v<Write, int>);
    static_assert(std::is_convertible_v<DevicePtr<int>, DevicePtr<const int>>);
    static_assert(!std::is_constructible_v<DevicePtr<int>, DevicePtr<const int>>);
    static_assert(!std::is_constructible_v<DevicePtr<uint>, DevicePtr<const int>>);
    static_assert(!std::is_convertible_v<DevicePtr<int>, DevicePtr<uint>>);
    static_assert(std::is_constructible_v<DevicePtr<const uint>, DevicePtr<const int>>);
    static_assert(!std::is_constructible_v<ThreadgroupPtr<int>, DevicePtr<int>>);
    static_assert(!std::is_constructible_v<DevicePtr<int>, int *>);
}
