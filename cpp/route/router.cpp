#include "route/router.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "route/commands.h"

namespace qwisp {
namespace {

constexpr int64_t kSmallestWorkspace = 32;           // rows: decode and verification share it
constexpr size_t kMostPlans = 32;                    // decode, and verification of any length
constexpr size_t kLargestPooled = size_t{64} << 20;  // bytes: a rare giant call does not keep its memory

void check_arrays(const RouteShape &shape, const RouterInput &input, const RouterOutput &output) {
    check_exact_length("x", input.x.size(), shape.rows * shape.hidden * 2, "float16 [rows, hidden]");
    check_exact_length("inds", output.inds.size(), shape.rows * shape.top_k * 4, "int32 [rows, top_k]");
    check_exact_length("scores", output.scores.size(), shape.rows * shape.top_k * 2, "float16 [rows, top_k]");
    if (output.logits) {
        check_exact_length("logits", output.logits->size(), shape.rows * shape.experts * 2,
                           "float16 [rows, experts]");
    }
    if (input.bias && input.bias->resident.size() != size_t(shape.experts)) {
        throw std::invalid_argument("bias.resident: " + std::to_string(input.bias->resident.size()) +
                                    " elements, but it must have " + std::to_string(shape.experts) +
                                    " (experts)");
    }
}

// Working memory, and shared memory through which the host fills or reads it: itself, where the host sees it.
class Staged {
  public:
    Staged(MTL::Device *device, MTL::Buffer *working)
        : working_(NS::RetainPtr(working)),
          host_(is_visible(working) ? working_
                                    : new_shared_buffer(device, working->length(), "router.staging")) {}

    MTL::Buffer *working() const { return working_.get(); }

    // Before the route, with what it still needs the device to do.
    void write(std::span<const std::byte> from, std::vector<BufferCopy> &uploads) {
        std::copy_n(from.data(), from.size(), contents<std::byte>(host_.get()));
        if (host_ != working_) uploads.push_back({host_.get(), working_.get(), from.size()});
    }
    // Before the route, and after it.
    void will_read(size_t length, std::vector<BufferCopy> &downloads) {
        if (host_ != working_) downloads.push_back({working_.get(), host_.get(), length});
    }
    void read(std::span<std::byte> to) {
        std::copy_n(contents<std::byte>(host_.get()), to.size(), to.data());
    }

  private:
    BufferPtr working_, host_;
};

// Blocks until the route is done.
void run(Context &context, const RoutePlan &plan, const RouteOperands &operands,
         std::span<const BufferCopy> uploads, std::span<const BufferCopy> downloads) {
    AutoreleaseScope pool;
    MTL::CommandBuffer *const commands = new_commands(context.queue());
    encode_copies(commands, uploads);
    encode_compute(commands, MTL::DispatchTypeSerial, [&](MTL::ComputeCommandEncoder *encoder) {
        encode_moe_route_rows(encoder, plan, operands);
    });
    encode_copies(commands, downloads);
    complete(commands);
}

}  // namespace

struct Router::Workspace {
    int64_t rows;
    std::shared_ptr<RouteScratch> scratch;
    Staged x, resident, inds, scores, logits;

    Workspace(const Gate &gate, int64_t capacity, int64_t top_k)
        : Workspace(gate.context()->device(), gate, capacity, top_k) {}

    size_t bytes() const {
        return x.working()->length() + scratch->words()->length() + scratch->logits()->length();
    }

  private:
    Workspace(MTL::Device *device, const Gate &gate, int64_t capacity, int64_t top_k)
        : rows(capacity),
          scratch(RouteScratch::create(gate.context(), capacity, gate.experts(), top_k)),
          x(device, new_working_buffer(device, size_t(capacity) * gate.hidden() * 2, "router.x").get()),
          resident(device,
                   new_working_buffer(device, gate.experts() * sizeof(int32_t), "router.resident").get()),
          inds(device, scratch->inds()),
          scores(device, scratch->scores()),
          logits(device, scratch->logits()) {}
};

Router::Router(std::shared_ptr<Gate> gate, int64_t top_k, Fuse fuse) : gate_(std::move(gate)), fuse_(fuse) {
    if (!gate_) throw std::invalid_argument("gate: null");
    check_route_shape({1, gate_->hidden(), gate_->experts(), top_k});
    top_k_ = uint32_t(top_k);
}

Router::~Router() = default;

RouteRequest Router::request(int64_t rows, bool bias, bool logits, std::optional<Fuse> fuse) const {
    RouteRequest request;
    request.shape = {rows, gate_->hidden(), gate_->experts(), top_k_};
    request.fuse = fuse.value_or(fuse_);
    request.bias = bias;
    request.logits = logits;
    return request;
}

RoutePlan Router::plan(int64_t rows, bool bias, bool logits, std::optional<Fuse> fuse) const {
    return plan_route(gate_->context(), request(rows, bias, logits, fuse));
}

std::shared_ptr<const RoutePlan> Router::kept_plan(int64_t rows, bool bias, bool logits,
                                                   std::optional<Fuse> fuse) {
    const RouteRequest request = this->request(rows, bias, logits, fuse);
    {
        const std::lock_guard lock(mutex_);
        for (const auto &[known, plan] : plans_) {
            if (known == request) return plan;
        }
    }
    auto plan = std::make_shared<const RoutePlan>(plan_route(gate_->context(), request));
    const std::lock_guard lock(mutex_);
    if (plans_.size() == kMostPlans) plans_.clear();
    plans_.emplace_back(request, plan);
    return plan;
}

std::shared_ptr<const RoutePlan> Router::route(const RouterInput &input, const RouterOutput &output) {
    const bool biased = input.bias && bias_applies(input.bias->eps);
    auto plan = kept_plan(input.rows, biased, output.logits.has_value(), input.fuse);
    check_arrays(plan->request.shape, input, output);
    if (input.rows == 0) return plan;

    auto workspace = acquire(input.rows);
    std::vector<BufferCopy> uploads, downloads;
    RouteBias bias;
    workspace->x.write(input.x, uploads);
    if (biased) {
        workspace->resident.write(std::as_bytes(input.bias->resident), uploads);
        bias = {workspace->resident.working(), input.bias->eps};
    }
    workspace->inds.will_read(output.inds.size(), downloads);
    workspace->scores.will_read(output.scores.size(), downloads);
    if (output.logits) workspace->logits.will_read(output.logits->size(), downloads);
    // If this throws, the workspace goes with it: the next call gets a fresh scratch.
    run(*gate_->context(), *plan,
        {.x = workspace->x.working(),
         .gate = gate_.get(),
         .scratch = workspace->scratch.get(),
         .bias = biased ? &bias : nullptr},
        uploads, downloads);
    workspace->inds.read(output.inds);
    workspace->scores.read(output.scores);
    if (output.logits) workspace->logits.read(*output.logits);
    release(std::move(workspace));
    return plan;
}

std::unique_ptr<Router::Workspace> Router::acquire(int64_t rows) {
    std::unique_ptr<Workspace> workspace;
    {
        std::lock_guard lock(mutex_);
        if (!free_.empty()) {
            workspace = std::move(free_.back());
            free_.pop_back();
        }
    }
    if (workspace && workspace->rows >= rows) return workspace;
    return std::make_unique<Workspace>(*gate_, std::max(rows, kSmallestWorkspace), top_k_);
}

void Router::release(std::unique_ptr<Workspace> workspace) {
    if (workspace->bytes() > kLargestPooled) return;
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
}

}  // namespace qwisp
