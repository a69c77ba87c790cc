// IEEE binary16 written out, for tests: nothing is shared with what they test.
#pragma once
#include <cmath>
#include <cstdint>

namespace qwisp::test {

inline double value_of(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                             : exponent == 31 ? (fraction ? NAN : INFINITY)
                                              : std::ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

// The half nearest to an exact value, ties to even, by search.
inline uint16_t nearest(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(value);
    if (std::isnan(value)) return 0x7e00;
    if (magnitude >= 65520) return sign | 0x7c00;
    uint16_t low = 0, high = 0x7bff;  // the largest half that is not above
    while (low < high) {
        const auto middle = static_cast<uint16_t>((low + high + 1) / 2);
        if (value_of(middle) <= magnitude)
            low = middle;
        else
            high = middle - 1;
    }
    if (low == 0x7bff) return sign | low;
    const double below = magnitude - value_of(low), above = value_of(low + 1) - magnitude;
    const bool up = above < below || (above == below && low % 2 != 0);
    return sign | (up ? low + 1 : low);
}

// A NaN is a NaN.
inline bool same(uint16_t a, uint16_t b) {
    const auto is_nan = [](uint16_t bits) { return (bits & 0x7fff) > 0x7c00; };
    return a == b || (is_nan(a) && is_nan(b));
}

}  // namespace qwisp::test
