#include "timing/harness.h"

#include <algorithm>
#include <deque>
#include <stdexcept>

#include "metal_runtime/device/recording.h"

namespace qwisp::timing {
namespace {

std::vector<std::string> names(const std::vector<Arm> &arms) {
    if (arms.empty()) throw std::invalid_argument("arms: none, but there must be one to time");
    std::vector<std::string> out;
    for (const Arm &arm : arms) {
        if (std::find(out.begin(), out.end(), arm.name) != out.end())
            throw std::invalid_argument("arms: '" + arm.name + "' twice, but names must differ");
        out.push_back(arm.name);
    }
    return out;
}

struct InFlight {
    Submitted submitted;
    Sample sample;
    int64_t slot;
};

}  // namespace

std::vector<size_t> round_order(size_t arms, int64_t round) {
    std::vector<size_t> order(arms);
    for (size_t i = 0; i < arms; ++i) order[i] = (i + size_t(round / 2)) % arms;
    if (round % 2 != 0) std::reverse(order.begin(), order.end());
    return order;
}

Harness::Harness(std::shared_ptr<Context> context, std::vector<Arm> arms, const WorkloadOptions &options,
                 bool concurrent, Parts parts)
    : context_(std::move(context)),
      arms_(std::move(arms)),
      parts_(std::move(parts)),
      workload_(context_, options, parts_.fill),
      outputs_(workload_, names(arms_)),
      concurrent_(concurrent) {
    for (const Arm &arm : arms_) {
        RouteRequest request;
        request.shape = options.shape;
        request.fuse = arm.fuse;
        plans_.push_back(plan_route(context_, request));
    }
}

void Harness::encode(MTL::ComputeCommandEncoder *encoder, size_t arm, int64_t x_set, int64_t block,
                     int64_t slot) const {
    for (int64_t layer = 0; layer < workload_.options().layers; ++layer) {
        // In a model each layer waits for the one before it.
        if (concurrent_ && layer > 0) encoder->memoryBarrier(MTL::BarrierScopeBuffers);
        RouteOperands operands;
        operands.x = workload_.x(x_set);
        operands.gate = &workload_.gate(block, layer);
        operands.scratch = &workload_.scratch(slot, layer);
        parts_.encode(encoder, Job{arm, plans_[arm], operands});
    }
}

Encoded Harness::encoded(size_t arm) const {
    if (arm >= arms_.size()) throw std::out_of_range("arm: " + std::to_string(arm));
    AutoreleaseScope pool;
    metal::Recording recording(context_->device(),
                               concurrent_ ? MTL::DispatchTypeConcurrent : MTL::DispatchTypeSerial);
    encode(recording.encoder(), arm, 0, 0, 0);
    recording.encoder()->endEncoding();
    Encoded out;
    for (const metal::RecordedCommand &command : recording.commands()) {
        if (command.kind == metal::RecordedCommand::Kind::barrier) {
            ++out.barriers;
        } else {
            out.kernels.push_back(command.pipeline);
        }
    }
    return out;
}

std::vector<Sample> Harness::run(int64_t first_round, int64_t rounds, bool rotate) {
    if (first_round < 0 || rounds < 0) throw std::invalid_argument("round: it must not be negative");
    const WorkloadOptions &options = workload_.options();
    std::vector<Sample> samples;
    samples.reserve(size_t(rounds) * arms_.size());
    std::deque<InFlight> in_flight;
    int64_t last_completed = 0;

    const auto check_from = [&](size_t first, int64_t slot) {
        for (size_t i = first; i < samples.size(); ++i, slot = (slot + 1) % options.in_flight) {
            const Sample &sample = samples[i];
            outputs_.check(slot, sample.x_set, sample.block, size_t(sample.arm), sample.round);
            poison(workload_, slot);
        }
    };
    // Where checking is work of the device, all that is in flight ends first, so that nothing waits for it.
    const auto finish_some = [&] {
        const size_t first = samples.size();
        const int64_t slot = in_flight.front().slot;
        do {
            const InFlight oldest = std::move(in_flight.front());
            in_flight.pop_front();
            Sample sample = oldest.sample;
            sample.committed_ns = oldest.submitted.committed_ns;
            sample.completed_ns = finish(oldest.submitted);
            sample.wall_ns = sample.completed_ns - std::max(sample.committed_ns, last_completed);
            last_completed = sample.completed_ns;
            sample.gpu = parts_.stamps(oldest.submitted.commands.get());
            samples.push_back(sample);
        } while (!workload_.is_visible() && !in_flight.empty());
        check_from(first, slot);
    };

    for (int64_t slot = 0; slot < options.in_flight; ++slot) poison(workload_, slot);
    int64_t index = first_round * int64_t(arms_.size());
    for (int64_t round = first_round; round < first_round + rounds; ++round) {
        const auto order = round_order(arms_.size(), round);
        for (size_t position = 0; position < order.size(); ++position, ++index) {
            if (int64_t(in_flight.size()) == options.in_flight) finish_some();
            Sample sample;
            sample.round = round;
            sample.arm = int64_t(order[position]);
            sample.position = int64_t(position);
            sample.x_set = round % options.x_sets;
            sample.block = (rotate ? index : round) % options.blocks;
            sample.x_hash = workload_.x_hash(sample.x_set);
            const int64_t slot = index % options.in_flight;
            Submitted submitted = submit(*context_, concurrent_, [&](MTL::ComputeCommandEncoder *encoder) {
                encode(encoder, order[position], sample.x_set, sample.block, slot);
            });
            in_flight.push_back({std::move(submitted), sample, slot});
        }
    }
    while (!in_flight.empty()) finish_some();
    return samples;
}

}  // namespace qwisp::timing
