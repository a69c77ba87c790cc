// CONTRACT section 2 in vectors: experts in the lanes of a register, x broadcast.
#pragma once
#include <type_traits>

#include "metal_runtime/drivers/cpu/vector/simd.h"

namespace qwisp::metal::vector::QWISP_VECTOR_TARGET {

constexpr int kLanes = 32;   // of a simdgroup
constexpr int kOctet = 8;    // lanes that share a scale and a bias
constexpr int kColumns = 8;  // of a lane in a block
constexpr int kBlock = 256;
// A group is kVectors registers of experts, so that one broadcast of x serves several.
constexpr int kVectors = kWidth == 16 ? 1 : 16 / kWidth;
constexpr int kGroup = kVectors * kWidth;
constexpr size_t kStep = kGroup * 4;                // bytes: four columns of each expert of a group
constexpr size_t kBlockBytes = kOctet * 2 * kStep;  // of one octet
constexpr size_t kPairHalves = 2 * kGroup;          // scales, then biases
constexpr size_t kPrefetch = 8192;                  // bytes ahead, into the second-level cache

// A masked byte j of a dword converts to byte * 2^(8 j), which the converted x makes good: x * 2^(-8 j).
// Every factor is a power of two, so no bit is lost. Byte 3 would be negative and is shifted down instead.
QWISP_ALWAYS_INLINE float column_scale(int column) {
    const int byte = column % 4;
    return byte == 1 ? 0x1p-8f : byte == 2 ? 0x1p-16f : 1.0f;
}

template <int kByte>
QWISP_ALWAYS_INLINE F32 byte_of(U32 dwords) {
    const U32 kept = kByte == 3 ? dwords >> 24 : dwords & (0xffu << (8 * kByte));
    return __builtin_convertvector((I32)kept, F32);
}

QWISP_ALWAYS_INLINE void pack_group(const uint8_t *weight, const uint16_t *scales, const uint16_t *biases,
                                    uint32_t hidden, uint32_t experts, uint32_t first, uint8_t *packed,
                                    uint16_t *pairs) {
    const uint32_t pairs_per_row = hidden / 64;
    for (int octet = 0; octet < kLanes / kOctet; octet++) {
        for (uint32_t block = 0; block < hidden / kBlock; block++) {
            for (int step = 0; step < 2 * kOctet; step++) {
                for (uint32_t e = first; e < first + kGroup; e++, packed += 4) {
                    const size_t at = size_t{e} * hidden + block * kBlock + octet * 64 + step * 4;
                    if (e < experts) {
                        memcpy(packed, weight + at, 4);
                    } else {
                        memset(packed, 0, 4);
                    }
                }
            }
            for (uint32_t e = 0; e < kGroup; e++) {
                const size_t at = size_t{first + e} * pairs_per_row + block * 4 + octet;
                pairs[e] = first + e < experts ? scales[at] : 0;
                pairs[kGroup + e] = first + e < experts ? biases[at] : 0;
            }
            pairs += kPairHalves;
        }
    }
}

// The kernels take 8, 4, 2 or 1 rows at a time: f(how many, the first).
template <typename F>
QWISP_ALWAYS_INLINE void for_row_blocks(uint32_t rows, const F &f) {
    uint32_t m = 0;
    for (; m + 8 <= rows; m += 8) f(std::integral_constant<int, 8>{}, m);
    for (; m + 4 <= rows; m += 4) f(std::integral_constant<int, 4>{}, m);
    for (; m + 2 <= rows; m += 2) f(std::integral_constant<int, 2>{}, m);
    for (; m < rows; m++) f(std::integral_constant<int, 1>{}, m);
}

// Where a block of kRows rows keeps its x: an octet's columns and then their sums, row by row, so that
// the way from a row to the next is a constant.
constexpr int kOctetColumns = kOctet * kColumns;
constexpr int kOctetFloats = kOctetColumns + kOctet;

// The sums of kWidth lanes, each over its columns in order: three rounds of sorting by the lowest bit of a
// column's number make vector i hold column i of every lane.
QWISP_ALWAYS_INLINE F32 lane_sums(F32 (&x)[kColumns]) {
    QWISP_UNROLL
    for (int round = 0; round < 3; round++) {
        F32 sorted[kColumns];
        QWISP_UNROLL
        for (int j = 0; j < kColumns / 2; j++) {
            sorted[j] = every_other<0>(x[2 * j], x[2 * j + 1]);
            sorted[j + kColumns / 2] = every_other<1>(x[2 * j], x[2 * j + 1]);
        }
        QWISP_UNROLL
        for (int j = 0; j < kColumns; j++) x[j] = sorted[j];
    }
    F32 sum = splat(0.0f);
    QWISP_UNROLL
    for (int j = 0; j < kColumns; j++) sum = sum + x[j];
    return sum;
}

template <int kRows>
QWISP_ALWAYS_INLINE void convert_block(const uint16_t *x, uint32_t hidden, float *converted) {
    alignas(64) float scale[kWidth];
    for (int i = 0; i < kWidth; i++) scale[i] = column_scale(i);
    const F32 scales = load<F32>(scale);
    constexpr size_t kNextOctet = kRows * kOctetFloats;
    for (int m = 0; m < kRows; m++) {
        float *const to = converted + m * kOctetFloats;
        for (uint32_t lane = 0; lane < hidden / kColumns; lane += kWidth) {
            F32 columns[kColumns];
            QWISP_UNROLL
            for (int j = 0; j < kColumns; j++) {
                const uint32_t column = lane * kColumns + j * kWidth;
                columns[j] = load_halves(x + column);
                store(to + column / kOctetColumns * kNextOctet + column % kOctetColumns, columns[j] * scales);
            }
            float sums[kWidth];
            store(sums, lane_sums(columns));
            constexpr int kTogether = kWidth < kOctet ? kWidth : kOctet;
            QWISP_UNROLL
            for (int l = 0; l < kWidth; l += kTogether) {
                memcpy(to + (lane + l) / kOctet * kNextOctet + kOctetColumns + (lane + l) % kOctet, sums + l,
                       kTogether * sizeof(float));
            }
        }
        x += hidden;
    }
}

static void convert(const uint16_t *x, uint32_t hidden, uint32_t rows, float *converted) {
    for_row_blocks(rows, [&](auto count, uint32_t m) {
        convert_block<count()>(x + m * size_t{hidden}, hidden, converted + m * floats_per_row(hidden));
    });
}

// kRows rows by kTile lanes of one octet by one group: `result` of CONTRACT section 2 into res[row][lane].
template <int kRows, int kTile>
QWISP_ALWAYS_INLINE void tile(const uint8_t *weight, const uint16_t *pairs, const float *x, uint32_t hidden,
                              int first_lane, F32 (*res)[kLanes][kVectors]) {
    F32 result[kRows][kTile][kVectors];
    QWISP_UNROLL
    for (int m = 0; m < kRows; m++) {
        QWISP_UNROLL
        for (int l = 0; l < kTile; l++) {
            QWISP_UNROLL
            for (int v = 0; v < kVectors; v++) result[m][l][v] = splat(0.0f);
        }
    }
    weight += (first_lane % kOctet) * 2 * kStep;
    x += first_lane / kOctet * (kRows * kOctetFloats);
    const float *sums = x + kOctetColumns + first_lane % kOctet;
    x += first_lane % kOctet * kColumns;
    for (uint32_t block = 0; block < hidden / kBlock; block++) {
        F32 scale[kVectors], bias[kVectors];
        QWISP_UNROLL
        for (int v = 0; v < kVectors; v++) {
            scale[v] = load_halves(pairs + v * kWidth);
            bias[v] = load_halves(pairs + kGroup + v * kWidth);
        }
        F32 accum[kRows][kTile][kVectors];
        U32 dwords[kTile][kVectors];
#define QWISP_COLUMN(i)                                                                              \
    QWISP_UNROLL                                                                                     \
    for (int l = 0; l < kTile; l++) {                                                                \
        if ((i) % 4 == 0) {                                                                          \
            const uint8_t *const at = weight + (l * 2 + (i) / 4) * kStep;                            \
            QWISP_UNROLL                                                                             \
            for (int v = 0; v < kVectors; v++) dwords[l][v] = load<U32>(at + v * 4 * kWidth);        \
            __builtin_prefetch(at + kPrefetch, 0, 2);                                                \
        }                                                                                            \
        F32 w[kVectors];                                                                             \
        QWISP_UNROLL                                                                                 \
        for (int v = 0; v < kVectors; v++) w[v] = byte_of<(i) % 4>(dwords[l][v]);                    \
        QWISP_UNROLL                                                                                 \
        for (int m = 0; m < kRows; m++) {                                                            \
            const F32 xs = splat(x[m * kOctetFloats + l * kColumns + (i)]);                          \
            QWISP_UNROLL                                                                             \
            for (int v = 0; v < kVectors; v++) {                                                     \
                accum[m][l][v] = (i) == 0 ? xs * w[v] : add_exact_product(xs, w[v], accum[m][l][v]); \
            }                                                                                        \
        }                                                                                            \
    }
        QWISP_COLUMN(0)
        QWISP_COLUMN(1)
        QWISP_COLUMN(2)
        QWISP_COLUMN(3)
        QWISP_COLUMN(4)
        QWISP_COLUMN(5)
        QWISP_COLUMN(6)
        QWISP_COLUMN(7)
#undef QWISP_COLUMN
        QWISP_UNROLL
        for (int l = 0; l < kTile; l++) {
            QWISP_UNROLL
            for (int m = 0; m < kRows; m++) {
                const F32 sum = splat(sums[m * kOctetFloats + l]);
                QWISP_UNROLL
                for (int v = 0; v < kVectors; v++) {
                    result[m][l][v] = result[m][l][v] + (scale[v] * accum[m][l][v] + sum * bias[v]);
                }
            }
        }
        weight += kBlockBytes;
        pairs += kPairHalves;
        x += kLanes / kOctet * kRows * kOctetFloats;
        sums += kLanes / kOctet * kRows * kOctetFloats;
    }
    QWISP_UNROLL
    for (int m = 0; m < kRows; m++) {
        QWISP_UNROLL
        for (int l = 0; l < kTile; l++) {
            QWISP_UNROLL
            for (int v = 0; v < kVectors; v++) res[m][first_lane + l][v] = result[m][l][v];
        }
    }
}

// simd_sum's butterfly, 16 to 1.
QWISP_ALWAYS_INLINE F32 butterfly(const F32 (*lanes)[kVectors], int v) {
    F32 sum[kLanes / 2];
    QWISP_UNROLL
    for (int l = 0; l < 16; l++) sum[l] = lanes[l][v] + lanes[l + 16][v];
    QWISP_UNROLL
    for (int s = 8; s > 0; s /= 2) {
        QWISP_UNROLL
        for (int l = 0; l < s; l++) sum[l] = sum[l] + sum[l + s];
    }
    return sum[0];
}

template <int kRows, int kTile>
QWISP_ALWAYS_INLINE void group_rows(const PackedGate &gate, const float *x, uint32_t group,
                                    uint16_t *logits) {
    const size_t octet_bytes = gate.hidden / kBlock * kBlockBytes;
    const size_t octet_pairs = gate.hidden / kBlock * kPairHalves;
    alignas(64) F32 res[kRows][kLanes][kVectors];
    for (int octet = 0; octet < kLanes / kOctet; octet++) {
        const uint8_t *const weight = gate.weight + (group * 4 + octet) * octet_bytes;
        const uint16_t *const pairs = gate.pairs + (group * 4 + octet) * octet_pairs;
        for (int l = 0; l < kOctet; l += kTile) {
            tile<kRows, kTile>(weight, pairs, x, gate.hidden, octet * kOctet + l, res);
        }
    }
    for (int m = 0; m < kRows; m++) {
        for (int v = 0; v < kVectors; v++) {
            const uint32_t expert = group * kGroup + v * kWidth;
            if (expert >= gate.experts) break;
            uint16_t *const to = logits + m * size_t{gate.experts} + expert;
            const F32 sum = butterfly(res[m], v);
            if (gate.experts - expert >= static_cast<uint32_t>(kWidth)) {
                store_halves(to, sum);
            } else {
                uint16_t halves[kWidth];
                store_halves(halves, sum);
                memcpy(to, halves, (gate.experts - expert) * sizeof(uint16_t));
            }
        }
    }
}

// Lanes a tile: as many as the registers hold.
constexpr int tile_lanes(int rows) {
#if defined(__AVX512F__)
    return 8 / rows;
#else
    return rows == 1 ? 2 : 1;
#endif
}

static void logits(const PackedGate &gate, const float *converted, uint32_t rows, uint32_t first,
                   uint32_t last, uint16_t *out) {
    for (uint32_t group = first; group < last; group++) {
        for_row_blocks(rows, [&](auto count, uint32_t m) {
            group_rows<count(), tile_lanes(count())>(gate, converted + m * floats_per_row(gate.hidden), group,
                                                     out + m * size_t{gate.experts});
        });
    }
}

}  // namespace qwisp::metal::vector::QWISP_VECTOR_TARGET
