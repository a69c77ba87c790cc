// Shared by the shaders and the host: kernel names, buffer slots, function constants, argument structs, limits.
#pragma once
#if !defined(__METAL_VERSION__) && !defined(__CUDACC_RTC__)
#include <cstdint>
#endif

// Every kernel of the library, once.
#define QWISP_KERNELS(X)       \
    X(qmm8_rows)               \
    X(route_top8_rows)         \
    X(route_top8_rows_bias)    \
    X(qmm8_rows_split)         \
    X(route_top8_rows_wide)    \
    X(route_fused_rows_single) \
    X(route_fused_rows_last)   \
    X(route_fused_rows_split)  \
    X(diag_copy_route)         \
    X(slot_remap_rows)

// Limits (docs/numerics.md). kRouteThreads is T of CONTRACT section 3.
enum RouteLimit : uint32_t {
    kHiddenMultiple = 512,
    kExpertMultiple = 8,
    kMaxExperts = 256,
    kMaxFusedTopK = 32,  // the one-simdgroup tail keeps one winner a lane
    kQuantGroup = 64,    // columns that share a scale and a bias
    kSimdWidth = 32,
    kRouteThreads = 256,
    kQmmThreads = 64,       // 2 simdgroups of qmm8_rows and of route_fused_rows_last
    kExpertsPerSimd = 4,
    kExpertsPerGroup = 8,
    kMaxSingleThreads = 1024,
    kSplitThreads = 256,  // 8 simdgroups of the kernels in route_split_rows.metal
    kSplitSimdgroups = 8,
    kSplitExperts = 2,      // a threadgroup
    kSplitColumns = 2048,   // that a threadgroup's threads cover at once, 8 each
    kMaxTileRows = 4,       // rows of x that share one reading of the weights
    kSplitAlignment = 16,   // bytes: what x must be aligned to
    kCopyThreads = 256,  // diag_copy_route, slot_remap_rows
};

// Buffer slots, one enum a kernel. The first four agree wherever x meets the gate.
enum QmmSlot : uint32_t { kQmmX, kQmmWeight, kQmmScales, kQmmBiases, kQmmLogits, kQmmArgs };
enum TopkSlot : uint32_t { kTopkLogits, kTopkInds, kTopkScores, kTopkArgs, kTopkResident };
enum FusedSlot : uint32_t {
    kFusedX,
    kFusedWeight,
    kFusedScales,
    kFusedBiases,
    kFusedInds,
    kFusedScoresOut,
    kFusedArgs,
    kFusedLogits,    // with kWriteLogits
    kFusedResident,  // with kUseBias
    kFusedArrivals,  // last and split only: uint32 [rows], 0 between launches
    kFusedWords,     // last and split only: uint32 [rows, E] or [rows, E / 2], 0 between launches
};
enum DiagSlot : uint32_t { kDiagInds, kDiagLogits, kDiagIndsOut, kDiagLogitsOut, kDiagArgs };
enum RemapSlot : uint32_t { kRemapInds, kRemapTable, kRemapArgs };

// Function constants (route_constants.h).
enum FusedConstant : uint32_t {
    kUseBiasIndex,
    kWriteLogitsIndex,
    kHiddenIndex,
    kExpertsIndex,
    kTopKIndex,
    kTileRowsIndex,  // qmm8_rows_split only
};

struct QmmArgs {
    uint32_t hidden;
    uint32_t experts;
};
struct TopkArgs {
    uint32_t experts;
    uint32_t top_k;
    float eps;  // route_top8_rows_bias; 0 otherwise
};
struct FusedArgs {
    float eps;
};
struct DiagArgs {
    uint32_t inds_count;
    uint32_t logits_count;
};
struct RemapArgs {
    uint32_t count;
    uint32_t table_length;
};
static_assert(sizeof(QmmArgs) == 8, "shared layout");
static_assert(sizeof(TopkArgs) == 12, "shared layout");
static_assert(sizeof(FusedArgs) == 4, "shared layout");
static_assert(sizeof(DiagArgs) == 8, "shared layout");
static_assert(sizeof(RemapArgs) == 8, "shared layout");
