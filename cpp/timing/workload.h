// What the arms of a run share: gates, hidden rows, and the scratches that their results go to.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "route/gate.h"
#include "route/limits.h"
#include "route/scratch.h"

namespace qwisp::timing {

struct WorkloadOptions {
    RouteShape shape = {1, 2048, 256, 8};
    int64_t layers = 40;    // routes in a command buffer, each with a gate of its own
    int64_t x_sets = 4;     // inputs, one a round in rotation
    int64_t blocks = 1;     // sets of `layers` gates, in rotation: more than the last-level cache holds, for
                            // cold weights
    int64_t in_flight = 2;  // command buffers committed at a time
    uint64_t seed = 0;
};

// Fills float16 rows; another seed gives other rows.
using Fill = std::function<void(std::span<uint16_t> x, uint64_t seed)>;
void fill_rows(std::span<uint16_t> x, uint64_t seed);

class Workload {
  public:
    // Throws std::invalid_argument (an option, with its limit), AllocationError.
    Workload(const std::shared_ptr<Context> &context, const WorkloadOptions &options, const Fill &fill);

    const WorkloadOptions &options() const { return options_; }
    const Gate &gate(int64_t block, int64_t layer) const {
        return *gates_[size_t(block * options_.layers + layer)];
    }
    const RouteScratch &scratch(int64_t slot, int64_t layer) const {
        return *scratches_[size_t(slot * options_.layers + layer)];
    }
    MTL::Buffer *x(int64_t set) const { return x_[size_t(set)].get(); }  // float16 [rows, hidden]
    // Of what the buffer holds now; where the host does not see it, of what it held when it was filled.
    uint64_t x_hash(int64_t set) const;

    // Whether the host sees what the commands work on. If not, the two below are work of the device, and
    // block.
    bool is_visible() const { return !staging_; }
    // Overwrites the inds and scores in a slot.
    void fill_results(int64_t slot, std::byte value) const;
    // The inds and scores in a slot, layer after layer.
    std::vector<std::byte> results(int64_t slot) const;

  private:
    std::vector<MTL::Buffer *> result_buffers(int64_t slot) const;

    std::shared_ptr<Context> context_;
    WorkloadOptions options_;
    std::vector<std::shared_ptr<Gate>> gates_;
    std::vector<std::shared_ptr<RouteScratch>> scratches_;
    std::vector<BufferPtr> x_;
    std::vector<uint64_t> x_hashes_;
    BufferPtr staging_;  // for the results of a slot, where the host does not see them
};

}  // namespace qwisp::timing
