#include "encode.h"

#include "commands.h"

namespace qwisp::python {
namespace {

struct PlanName {
    static constexpr auto text = py::detail::make_caster<RoutePlan>::name;
};

constexpr const char *kEncodeDoc =
    R"(Writes one layer's routing into an encoder. Returns the plan that it followed.

Results are in the scratch once the command buffer has completed: inds and scores, and logits if the pair ran or if
return_logits or diag asked for them. The same arguments encode the same commands. If it raises, nothing was encoded.

Args:
    encoder: an open ComputeEncoder of the gate's device.
    x: float16 Buffer [>= rows, H], the hidden rows.
    gate: E experts, H columns.
    scratch: for E experts and K = its top_k, with room for the rows.
    rows: M, from 0 to the scratch's rows.
    fuse: None (the device's default, from QWISP_FUSE_ROUTE), False, True (fused where a variant exists, else the
        pair), "auto" (fused where it was measured to win), or a variant: "pair", "single", "last",
        "split_pair", "split_last".
    bias: prefer resident experts.
    diag: also leave telemetry: raw logits, and expert ids before any remap.
    remap: int32 Buffer or array [>= E]: inds become remap[inds], after diag. An array is copied.
    return_logits: raw logits in the scratch whatever the route.

Raises:
    TypeError, ValueError: an argument, by name, with the value found and what it may be; a named variant that does
        not exist for this request.
    RuntimeError: the encoder has ended.
    DeviceError: a kernel that the device cannot run.)";

}  // namespace

EncodeArguments::EncodeArguments(const Arg<BufferObject> &x_arg, const Arg<GateObject> &gate_arg,
                                 const Arg<ScratchObject> &scratch_arg, const Arg<int64_t> &rows_arg,
                                 const Arg<Fuse> &fuse, const Arg<std::optional<BiasObject>> &bias,
                                 const Arg<std::optional<DiagObject>> &diag, const py::object &remap,
                                 const Arg<bool> &return_logits)
    : x_(instance("x", x_arg)),
      gate_(instance("gate", gate_arg)),
      scratch_(instance("scratch", scratch_arg)) {
    const int64_t rows = integer("rows", rows_arg);
    const int64_t hidden = gate_->gate->hidden(), experts = gate_->gate->experts();
    check_buffer("x", *x_, device(), Element::float16);
    if (scratch_->device != device()) wrong_value("scratch: made by another Device than the gate");
    if (x_->shape.size() != 2 || x_->shape[1] != hidden || x_->shape[0] < rows) {
        wrong_value("x: shape " + shown(x_->shape) + ", but it must be [at least rows=" +
                    std::to_string(rows) + ", hidden=" + std::to_string(hidden) + "]");
    }
    operands_.x = x_->memory.get();
    operands_.gate = gate_->gate.get();
    operands_.scratch = scratch().get();
    if (const auto given = instance("bias", bias)) {
        resident_ = given->on_device(device(), experts);
        bias_ = {resident_.get(), given->eps};
        operands_.bias = &bias_;
    }
    const auto given_diag = instance("diag", diag);
    if (given_diag) {
        if (given_diag->inds->device != device()) wrong_value("diag: made by another Device than the gate");
        diag_ = {given_diag->inds->memory.get(), given_diag->logits->memory.get(), given_diag->place};
        operands_.diag = &diag_;
    }
    set_remap(remap);
    const RouteRequest request = route_request(operands_, rows, fuse_value(fuse, device()->fuse),
                                               flag("return_logits", return_logits));
    if (request.diag) {  // the memory behind a small buffer is larger than what its array shows
        check_diag_lengths(*request.diag, given_diag->inds->bytes(), given_diag->logits->bytes());
    }
    const auto context = device()->context();
    without_gil([&] { plan_ = plan_route(context, request); });  // may build pipelines
}

void EncodeArguments::set_remap(const py::object &remap) {
    if (remap.is_none()) return;
    if (const auto buffer = held<BufferObject>(remap)) {
        check_buffer("remap", *buffer, device(), Element::int32);
        table_ = buffer->memory;
        remap_ = {table_.get(), int64_t(buffer->bytes() / sizeof(int32_t))};
    } else {
        const HostArray array("remap", remap, {Element::int32});
        if (array.dimensions() != 1)
            wrong_value("remap: shape " + shown(array.shape()) + ", but it must be [>= experts]");
        AutoreleaseScope pool;
        table_ =
            new_working_buffer(device()->context()->queue(), array.memory().data(), array.bytes(), "remap");
        remap_ = {table_.get(), int64_t(array.bytes() / sizeof(int32_t))};
    }
    operands_.remap = &remap_;
}

void bind_encode(py::module_ &module) {
    module.def(
        "encode_moe_route_rows",
        [](const Arg<EncoderObject> &encoder_arg, const Arg<BufferObject> &x, const Arg<GateObject> &gate,
           const Arg<ScratchObject> &scratch, const Arg<int64_t> &rows, const Arg<Fuse> &fuse,
           const Arg<std::optional<BiasObject>> &bias, const Arg<std::optional<DiagObject>> &diag,
           const Arg<RemapInput> &remap, const Arg<bool> &return_logits) {
            const auto encoder = instance("encoder", encoder_arg);
            const EncodeArguments arguments(x, gate, scratch, rows, fuse, bias, diag, remap.value,
                                            return_logits);
            if (encoder->commands->device() != arguments.device()) {
                wrong_value("encoder: made by another Device than the gate");
            }
            // Made first: where there is no memory for it, nothing is encoded.
            Named<PlanName> plan = py::cast(std::make_shared<RoutePlan>(arguments.plan()));
            encoder->commands->encode(encoder->ticket, arguments.scratch(),
                                      [&](MTL::ComputeCommandEncoder *open) {
                                          encode_moe_route_rows(open, arguments.plan(), arguments.operands());
                                      });
            return plan;
        },
        py::arg("encoder"), py::arg("x"), py::arg("gate"), py::arg("scratch"), py::kw_only(), py::arg("rows"),
        py::arg("fuse") = py::none(), py::arg("bias") = py::none(), py::arg("diag") = py::none(),
        py::arg("remap") = py::none(), py::arg("return_logits") = false, kEncodeDoc);
}

}  // namespace qwisp::python
