#include "route/plan.h"

#include <algorithm>
#include <stdexcept>

#include "route/errors.h"

namespace qwisp {
namespace {

struct Choice {
    Variant variant;
    std::string reason;
};

const std::string kNoFusedTopK = "no fused variant for top_k > " + std::to_string(kMaxFusedTopK);

Choice measured(const RouteRequest &request) {
    const std::string asked = "fuse is auto: ";
    if (!request.measured) return {Variant::pair, asked + "no measurement for this device"};
    if (*request.measured == Variant::pair) return {Variant::pair, asked + "nothing was measured to beat it"};
    if (request.shape.top_k > kMaxFusedTopK) return {Variant::pair, asked + kNoFusedTopK};
    if (request.logits || request.diag) return {Variant::pair, asked + "measured without logits only"};
    return {*request.measured, asked + "measured to win on this device"};
}

Choice choose(const RouteRequest &request) {
    const bool fusable = request.shape.top_k <= kMaxFusedTopK;
    const auto named = [&](Variant variant) -> Choice {
        if (fusable) return {variant, "asked for by name"};
        throw std::invalid_argument(std::string("fuse: '") + variant_name(variant) +
                                    "' was asked for, but there is " + kNoFusedTopK + " (top_k is " +
                                    std::to_string(request.shape.top_k) + ")");
    };
    switch (request.fuse) {
        case Fuse::off:
            return {Variant::pair, "fuse is off"};
        case Fuse::on:
            if (!fusable) return {Variant::pair, kNoFusedTopK};
            return {Variant::last, "fuse is on"};
        case Fuse::automatic:
            return measured(request);
        case Fuse::pair:
            return {Variant::pair, "asked for by name"};
        case Fuse::single:
            return named(Variant::single);
        case Fuse::last:
            return named(Variant::last);
        case Fuse::split_pair:
            return named(Variant::split_pair);
        case Fuse::split_last:
            return named(Variant::split_last);
    }
    throw std::invalid_argument("fuse: unknown value " + std::to_string(int(request.fuse)));
}

class Builder {
  public:
    Builder(RoutePlan &plan, const ThreadLimit &limit) : plan_(plan), limit_(limit) {}

    // A kernel that takes exactly `threads`.
    void add(Kernel kernel, const FusedConstants &constants, MTL::Size groups, uint32_t threads) {
        const uint32_t limit = limit_(kernel, constants);
        if (threads > limit) {
            throw DeviceError(
                std::string("kernel ") + kernel_name(kernel) + " needs " + std::to_string(threads) +
                " threads a threadgroup, but this device gives it at most " + std::to_string(limit));
        }
        plan_.steps.push_back({kernel, constants, groups, MTL::Size(threads, 1, 1)});
    }

    // A kernel that takes any number of whole simdgroups, `threads` at best.
    void add_flexible(Kernel kernel, const FusedConstants &constants, MTL::Size groups, uint32_t threads) {
        const uint32_t limit = limit_(kernel, constants) / kSimdWidth * kSimdWidth;
        add(kernel, constants, groups, std::clamp<uint32_t>(limit, kSimdWidth, threads));
    }

  private:
    RoutePlan &plan_;
    const ThreadLimit &limit_;
};

MTL::Size copy_groups(uint32_t count) { return MTL::Size((count + kCopyThreads - 1) / kCopyThreads, 1, 1); }

// Of qmm8_rows_split. All tiles are whole; fewer than two of them leave a GPU too little to do
// (docs/cuda.md).
uint32_t tile_rows(uint32_t rows) {
    constexpr uint32_t kMost = kMaxTileRows;
    return rows >= 2 * kMost && rows % kMost == 0 ? kMost : 1;
}

void add_variant(RoutePlan &plan, Builder &builder) {
    const RouteRequest &request = plan.request;
    const auto rows = uint32_t(request.shape.rows), experts = uint32_t(request.shape.experts);
    const MTL::Size grid(rows, experts / kExpertsPerGroup, 1), row_grid(rows, 1, 1);
    const MTL::Size split_grid(rows, experts / kSplitExperts, 1);
    const FusedConstants fused{request.bias, request.logits || request.diag.has_value(),
                               uint32_t(request.shape.hidden), experts, uint32_t(request.shape.top_k)};
    switch (plan.variant) {
        case Variant::pair:
            builder.add(Kernel::qmm8_rows, {}, grid, kQmmThreads);
            builder.add(request.bias ? Kernel::route_top8_rows_bias : Kernel::route_top8_rows, {}, row_grid,
                        kRouteThreads);
            break;
        case Variant::single:
            builder.add_flexible(
                Kernel::route_fused_rows_single, fused, row_grid,
                std::min<uint32_t>(kMaxSingleThreads, experts / kExpertsPerSimd * kSimdWidth));
            break;
        case Variant::last:
            builder.add(Kernel::route_fused_rows_last, fused, grid, kQmmThreads);
            break;
        case Variant::split_pair: {
            FusedConstants matvec, topk;  // each only what its kernel reads
            matvec.hidden = fused.hidden;
            matvec.experts = topk.experts = experts;
            topk.top_k = fused.top_k;
            topk.use_bias = request.bias;
            matvec.tile_rows = tile_rows(rows);
            const MTL::Size tiles(rows / matvec.tile_rows, experts / kSplitExperts, 1);
            builder.add(Kernel::qmm8_rows_split, matvec, tiles, kSplitThreads);
            builder.add(Kernel::route_top8_rows_wide, topk, row_grid, kSplitThreads);
            break;
        }
        case Variant::split_last:
            builder.add(Kernel::route_fused_rows_split, fused, split_grid, kSplitThreads);
            break;
    }
}

}  // namespace

const char *variant_name(Variant variant) {
    switch (variant) {
        case Variant::pair:
            return "pair";
        case Variant::single:
            return "single";
        case Variant::last:
            return "last";
        case Variant::split_pair:
            return "split_pair";
        case Variant::split_last:
            return "split_last";
    }
    return "?";
}

RoutePlan plan_route(const RouteRequest &request, const ThreadLimit &limit) {
    check_route_shape(request.shape);
    RoutePlan plan;
    plan.request = request;
    auto [variant, reason] = choose(request);
    plan.variant = variant;
    plan.reason = std::move(reason);
    if (request.shape.rows == 0) {
        plan.reason += "; no rows, nothing to dispatch";
        return plan;
    }

    plan.steps.reserve(4);
    Builder builder(plan, limit);
    add_variant(plan, builder);
    if (request.diag) {
        const uint32_t count = std::max(request.diag->inds_count, request.diag->logits_count);
        if (count > 0) {
            builder.add(Kernel::diag_copy_route, {}, copy_groups(count), kCopyThreads);
        } else {
            plan.reason += "; diag copies nothing: more rows than max_rows";
        }
    }
    if (request.remap) {
        const auto count = uint32_t(request.shape.rows * request.shape.top_k);
        builder.add(Kernel::slot_remap_rows, {}, copy_groups(count), kCopyThreads);
    }
    return plan;
}

RoutePlan plan_route(const std::shared_ptr<Context> &context, const RouteRequest &request) {
    if (!context) throw std::invalid_argument("context: null");
    RouteRequest known = request;
    known.measured = context->verdict(request.shape);
    RoutePlan plan = plan_route(known, [&](Kernel kernel, const FusedConstants &constants) {
        return context->pipeline(kernel, constants).max_threads;
    });
    for (RouteStep &step : plan.steps) step.pipeline = &context->pipeline(step.kernel, step.constants);
    plan.context = context;
    return plan;
}

}  // namespace qwisp
