// Writes one layer's routing into the caller's compute encoder.
#pragma once
#include <Metal/Metal.hpp>

#include "route/gate.h"
#include "route/operands.h"
#include "route/plan.h"
#include "route/scratch.h"

namespace qwisp {

// Borrowed for the call.
struct RouteOperands {
    MTL::Buffer *x = nullptr;  // float16 [>= rows, hidden], from x_offset (bytes) on
    uint64_t x_offset = 0;
    const Gate *gate = nullptr;
    const RouteScratch *scratch = nullptr;
    const RouteBias *bias = nullptr;
    const RouteDiag *diag = nullptr;
    const Remap *remap = nullptr;
};

// The request that these operands make, for plan_route.
RouteRequest route_request(const RouteOperands &operands, int64_t rows, Fuse fuse, bool logits);

// Validates, then encodes the steps of a resolved plan; if it throws (std::invalid_argument) nothing was
// encoded. Neither allocates nor locks. The same arguments encode the same commands.
//
// Results are in the scratch: inds and scores, and logits if the pair ran, or logits or diag were asked for.
//
// In a serial encoder no barrier is issued. In a concurrent one a buffer barrier is issued between the steps
// of this route and nowhere else: the caller puts one between whatever writes x and this call, between this
// call and whatever reads its results, and between two routes that share a scratch.
void encode_moe_route_rows(MTL::ComputeCommandEncoder *encoder, const RoutePlan &plan,
                           const RouteOperands &operands);

}  // namespace qwisp
