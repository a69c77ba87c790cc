// Routes host arrays: own command buffers, staging and scratch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "route/encode.h"
#include "route/gate.h"
#include "route/plan.h"

namespace qwisp {

struct HostBias {
    std::span<const int32_t> resident;  // [experts]
    float eps = 0;
};

// float16 values travel as their bits.
struct RouterInput {
    int64_t rows = 0;
    std::span<const std::byte> x;  // float16 [rows, hidden], any alignment
    std::optional<HostBias> bias;
    std::optional<Fuse> fuse;  // instead of the router's own
};
struct RouterOutput {
    std::span<std::byte> inds;                   // int32 [rows, top_k]
    std::span<std::byte> scores;                 // float16 [rows, top_k]
    std::optional<std::span<std::byte>> logits;  // float16 [rows, experts], if wanted
};

// Safe to use from several threads: each call takes its own workspace from a pool.
class Router {
  public:
    Router(std::shared_ptr<Gate> gate, int64_t top_k, Fuse fuse = Fuse::off);
    ~Router();

    // Blocks until done. The outputs are written only after the command buffer succeeded; a call that throws
    // (std::invalid_argument, AllocationError, DeviceError with the device's own message) leaves them
    // untouched and does not affect other calls. 0 rows: nothing is dispatched.
    // Returns the plan that it ran; plans are kept, so that a call like an earlier one makes none.
    std::shared_ptr<const RoutePlan> route(const RouterInput &input, const RouterOutput &output);

    // What route() would run.
    RoutePlan plan(int64_t rows, bool bias = false, bool logits = false, std::optional<Fuse> fuse = {}) const;

    // The same, kept for the next call like it.
    std::shared_ptr<const RoutePlan> kept_plan(int64_t rows, bool bias, bool logits,
                                               std::optional<Fuse> fuse = {});

    const std::shared_ptr<Gate> &gate() const { return gate_; }
    uint32_t top_k() const { return top_k_; }
    Fuse fuse() const { return fuse_; }

  private:
    struct Workspace;

    RouteRequest request(int64_t rows, bool bias, bool logits, std::optional<Fuse> fuse) const;
    std::unique_ptr<Workspace> acquire(int64_t rows);
    void release(std::unique_ptr<Workspace> workspace);

    std::shared_ptr<Gate> gate_;
    uint32_t top_k_;
    Fuse fuse_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Workspace>> free_;
    std::vector<std::pair<RouteRequest, std::shared_ptr<const RoutePlan>>> plans_;  // by what was asked
};

}  // namespace qwisp
