// The arguments of encode_moe_route_rows, checked and turned into what route/encode.h takes.
#pragma once
#include "objects.h"

namespace qwisp::python {

class EncodeArguments {
  public:
    EncodeArguments(const Arg<BufferObject> &x, const Arg<GateObject> &gate,
                    const Arg<ScratchObject> &scratch, const Arg<int64_t> &rows, const Arg<Fuse> &fuse,
                    const Arg<std::optional<BiasObject>> &bias, const Arg<std::optional<DiagObject>> &diag,
                    const py::object &remap, const Arg<bool> &return_logits);
    EncodeArguments(const EncodeArguments &) = delete;
    EncodeArguments &operator=(const EncodeArguments &) = delete;

    const DevicePtr &device() const { return gate_->device; }
    const std::shared_ptr<RouteScratch> &scratch() const { return scratch_->scratch; }
    const RouteOperands &operands() const { return operands_; }
    const RoutePlan &plan() const { return plan_; }

  private:
    void set_remap(const py::object &remap);

    std::shared_ptr<BufferObject> x_;
    std::shared_ptr<GateObject> gate_;
    std::shared_ptr<ScratchObject> scratch_;
    BufferPtr resident_, table_;
    RouteBias bias_;
    RouteDiag diag_;
    Remap remap_;
    RouteOperands operands_;  // points into the above
    RoutePlan plan_;
};

}  // namespace qwisp::python
