#include <algorithm>

#include "objects.h"

namespace qwisp::python {
namespace {

constexpr const char *kBiasDoc =
    R"(Prefers experts that are resident: the choice is made on logit + eps for those (docs/contract.md section 4).

Scores come from the unbiased logits.

Args:
    resident: int32 or bool [E], not 0 for a resident expert: an array (copied), or an int32 Buffer, whose
        contents at the time of routing count.
    eps: added in float32; it must be finite. <= 0 means unbiased.

Raises:
    TypeError, ValueError: a wrong dtype, shape or eps.)";

constexpr const char *kDiagDoc = R"(Where a route leaves its telemetry (docs/contract.md section 5).

inds of M <= max_rows rows go to element ((slot * layers + layer) * max_rows) * K of `inds`; raw logits go to
element layer * E of `logits`, only if M == 1 and slot == 0. Expert ids are those before any remap.

Args:
    inds: int32 Buffer, large enough for this layer and slot.
    logits: float16 Buffer, large enough for this layer.
    layer, layers: which layer, from 0, of how many.
    slot: the chain slot, from 0.
    max_rows: rows that a slot has room for.

Raises:
    TypeError, ValueError: a wrong buffer here; a place that cannot be, or a buffer too small, when it is used.)";

std::shared_ptr<BiasObject> make_bias(const Arg<ResidentInput> &resident, const Arg<double> &eps_arg) {
    const float eps = float32("eps", eps_arg);
    if (auto buffer = held<BufferObject>(resident.value)) {
        check_buffer("resident", *buffer, buffer->device, Element::int32);
        return std::make_shared<BiasObject>(std::move(buffer), eps);
    }
    const HostArray array("resident", resident.value, {Element::int32, Element::boolean});
    if (array.dimensions() != 1)
        wrong_value("resident: shape " + shown(array.shape()) + ", but it must be [experts]");
    std::vector<int32_t> values(size_t(array.extent(0)));
    const auto bytes = array.memory();
    if (array.element() == Element::int32) {
        std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(values)).begin());
    } else {
        std::transform(bytes.begin(), bytes.end(), values.begin(),
                       [](std::byte b) { return int32_t(b != std::byte{0}); });
    }
    return std::make_shared<BiasObject>(std::move(values), eps);
}

std::shared_ptr<DiagObject> make_diag(const Arg<BufferObject> &inds, const Arg<BufferObject> &logits,
                                      const Arg<int64_t> &layer, const Arg<int64_t> &layers,
                                      const Arg<int64_t> &slot, const Arg<int64_t> &max_rows) {
    auto diag = std::make_shared<DiagObject>();
    diag->inds = instance("inds", inds);
    diag->logits = instance("logits", logits);
    check_buffer("inds", *diag->inds, diag->inds->device, Element::int32);
    check_buffer("logits", *diag->logits, diag->inds->device, Element::float16);
    diag->place = {integer("layer", layer), integer("layers", layers), integer("slot", slot),
                   integer("max_rows", max_rows)};
    return diag;
}

}  // namespace

void BiasObject::check_length(int64_t experts) const {
    const auto length = given_ ? int64_t(given_->bytes() / sizeof(int32_t)) : int64_t(host_.size());
    if (length != experts) {
        wrong_value("bias.resident: " + std::to_string(length) + " elements, but it must have " +
                    std::to_string(experts) + ", one for each expert of the gate");
    }
}

BufferPtr BiasObject::on_device(const DevicePtr &device, int64_t experts) {
    check_length(experts);
    if (given_) {
        if (given_->device != device) wrong_value("bias.resident: made by another Device than the gate");
        return given_->memory;
    }
    std::lock_guard lock(mutex_);
    if (uploaded_for_.lock() != device->context()) {
        AutoreleaseScope pool;
        uploaded_ = new_working_buffer(device->context()->queue(), host_.data(),
                                       host_.size() * sizeof(int32_t), "resident");
        uploaded_for_ = device->context();
    }
    return uploaded_;
}

std::span<const int32_t> BiasObject::on_host(int64_t experts) const {
    check_length(experts);
    if (!given_) return host_;
    if (!given_->memory->contents())
        wrong_value("bias.resident: a private Buffer, but the host must see it here");
    return {contents<int32_t>(given_->memory.get()), size_t(experts)};
}

void bind_operands(py::module_ &module) {
    using Bias = Self<BiasObject>;
    using Diag = Self<DiagObject>;
    shared_class<BiasObject>(module, "RouteBias", kBiasDoc)
        .def(py::init(&make_bias), py::arg("resident"), py::arg("eps"))
        .def_property_readonly(
            "eps", [](const Bias &self) { return self->eps; }, "As rounded to float32.");
    shared_class<DiagObject>(module, "RouteDiag", kDiagDoc)
        .def(py::init(&make_diag), py::arg("inds"), py::arg("logits"), py::kw_only(), py::arg("layer"),
             py::arg("layers"), py::arg("slot") = 0, py::arg("max_rows"))
        .def_property_readonly(
            "inds", [](const Diag &self) { return self->inds; }, "int32 Buffer.")
        .def_property_readonly(
            "logits", [](const Diag &self) { return self->logits; }, "float16 Buffer.")
        .def_property_readonly(
            "layer", [](const Diag &self) { return self->place.layer; }, "From 0.")
        .def_property_readonly(
            "layers", [](const Diag &self) { return self->place.layers; }, "How many.")
        .def_property_readonly(
            "slot", [](const Diag &self) { return self->place.slot; }, "The chain slot, from 0.")
        .def_property_readonly(
            "max_rows", [](const Diag &self) { return self->place.max_rows; },
            "Rows that a slot has room for.");
}

}  // namespace qwisp::python
