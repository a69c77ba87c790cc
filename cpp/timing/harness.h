// Times variants of a route against each other: command buffers of L routes each, the arms interleaved, the
// device's stamps and the host's clock apart, every sample kept, all results compared.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "route/encode.h"
#include "timing/commands.h"
#include "timing/outputs.h"
#include "timing/workload.h"

namespace qwisp::timing {

struct Arm {
    std::string name;
    Fuse fuse;
};

// The order of the arms in a round. Odd rounds mirror the even ones before them, and each such pair of rounds
// starts with another arm: A B, B A, B A, A B for two.
std::vector<size_t> round_order(size_t arms, int64_t round);

// One timed command buffer.
struct Sample {
    int64_t round = 0;
    int64_t arm = 0;
    int64_t position = 0;  // in its round
    int64_t x_set = 0, block = 0;
    uint64_t x_hash = 0;       // of the rows that lay in the device's memory before it was committed
    GpuStamps gpu;             // s
    int64_t committed_ns = 0;  // host clock
    int64_t completed_ns = 0;  // as the host saw it
    int64_t wall_ns = 0;       // until it was completed, from its commit or the end of the one before it,
                               // whichever was later
};

// What a command buffer of an arm holds, as an encoder saw it.
struct Encoded {
    std::vector<std::string> kernels;
    uint64_t barriers = 0;
};

// One layer's route of one arm.
struct Job {
    size_t arm;
    const RoutePlan &plan;
    RouteOperands operands;
};

// What a run is made of. Tests put faults in their place (planted.h).
struct Parts {
    Fill fill = fill_rows;
    std::function<void(MTL::ComputeCommandEncoder *, const Job &)> encode =
        [](MTL::ComputeCommandEncoder *encoder, const Job &job) {
            encode_moe_route_rows(encoder, job.plan, job.operands);
        };
    std::function<GpuStamps(const MTL::CommandBuffer *)> stamps = gpu_stamps;
};

// For one thread at a time. After an error from the device it is spent.
class Harness {
  public:
    // Throws std::invalid_argument, AllocationError, DeviceError.
    Harness(std::shared_ptr<Context> context, std::vector<Arm> arms, const WorkloadOptions &options,
            bool concurrent, Parts parts = {});

    // Every arm once a round, in round_order; samples in the order in which they ran. Gates change with each
    // command buffer if `rotate`, so that none is met warm; otherwise with each round, so that all arms meet
    // on the same ones. Throws DeviceError.
    std::vector<Sample> run(int64_t first_round, int64_t rounds, bool rotate);

    const RoutePlan &plan(size_t arm) const { return plans_.at(arm); }  // of one layer
    Encoded encoded(size_t arm) const;
    const Outputs &outputs() const { return outputs_; }
    const WorkloadOptions &options() const { return workload_.options(); }
    bool concurrent() const { return concurrent_; }

    Harness(const Harness &) = delete;
    Harness &operator=(const Harness &) = delete;

  private:
    void encode(MTL::ComputeCommandEncoder *encoder, size_t arm, int64_t x_set, int64_t block,
                int64_t slot) const;

    std::shared_ptr<Context> context_;
    std::vector<Arm> arms_;
    Parts parts_;
    Workload workload_;
    Outputs outputs_;
    bool concurrent_;
    std::vector<RoutePlan> plans_;
};

}  // namespace qwisp::timing
