// Which kernels a route runs, on which grid, and why. Pure: the same request gives the same plan.
#pragma once
#include <Metal/Metal.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "route/context.h"
#include "route/kernel.h"
#include "route/limits.h"
#include "route/operands.h"
#include "route/variant.h"

namespace qwisp {

// What the caller asks for. `on`: a fused variant where one exists; `automatic`: fused only where it was
// measured to win; a named variant: that one, or an error.
enum class Fuse { off, on, automatic, pair, single, last, split_pair, split_last };

struct RouteRequest {
    RouteShape shape;
    Fuse fuse = Fuse::off;
    bool bias = false;             // a bias with eps > 0
    bool logits = false;           // raw logits wanted in the scratch
    std::optional<DiagCopy> diag;  // from diag_copy()
    bool remap = false;
    std::optional<Variant> measured;  // what Fuse::automatic may use; plan_route on a device fills it in
    bool operator==(const RouteRequest &) const = default;
};

struct RouteStep {
    Kernel kernel;
    FusedConstants constants;
    MTL::Size groups, threads;
    const Pipeline *pipeline = nullptr;  // null until resolved
};

struct RoutePlan {
    RouteRequest request;
    Variant variant = Variant::pair;
    std::string reason;            // why this variant; also says when a diag request had nothing to copy
    std::vector<RouteStep> steps;  // each depends on the one before it; none for 0 rows
    uint32_t barriers() const {
        return steps.empty() ? 0 : uint32_t(steps.size() - 1);
    }  // of a concurrent encoder

    std::shared_ptr<Context> context;  // owns the pipelines of a resolved plan; null otherwise
};

// What a device offers: the most threads that a threadgroup of this kernel may have.
using ThreadLimit = std::function<uint32_t(Kernel, const FusedConstants &)>;

// Throws std::invalid_argument (limits; a named variant that does not exist for the request) and DeviceError
// (a kernel that needs more threads than the device gives it).
RoutePlan plan_route(const RouteRequest &request, const ThreadLimit &limit);

// The same on a device, with the pipelines resolved: ready to encode, as often as wanted, from any thread.
RoutePlan plan_route(const std::shared_ptr<Context> &context, const RouteRequest &request);

}  // namespace qwisp
