#include "objects.h"

namespace qwisp::python {
namespace {

constexpr const char *kGateDoc =
    R"(A layer's router gate on a device: 8-bit affine weights in groups of 64 columns, as MLX stores them.

E experts, H hidden columns; H a multiple of 512, E a multiple of 8 and at most 256 (docs/contract.md section 1).

Args:
    device: where the copies go.
    weight: uint32 [E, H/4] (four codes a word, the lowest byte first) or uint8 [E, H].
    scales, biases: float16 [E, H/64]. Column c of expert e stands for scales[e, c // 64] * code + biases[e, c // 64].

Raises:
    TypeError, ValueError: a wrong dtype, shape or layout, or a limit.
    MemoryError: the device does not have it.)";

constexpr const char *kQuantizeDoc =
    R"(A gate from dense weights: the bytes that mlx.core.quantize(bits=8, group_size=64) gives.

Args:
    device: where the gate goes.
    dense: float16, float32 or float64 [E, H], finite. See qwisp_native.quantize.

Raises:
    TypeError, ValueError: a wrong dtype, shape, layout or value.
    MemoryError: the device does not have it.)";

constexpr const char *kFromWeightsDoc = R"(A gate from one layer of a checkpoint.

Args:
    device: where the gate goes.
    weights: one of the values of load_gates(path); anything with weight, scales and biases will do.)";

constexpr const char *kScratchDoc =
    R"(Buffers that encode_moe_route_rows writes: its results, and what the fused kernels keep between threadgroups.

A scratch serves one route at a time: command buffers in flight at once need one each. Its arrays are views without
a copy, except on a device whose memory is its own ("cuda"): there each is a copy, read only, of what the buffer holds
once the command buffers committed before have run.

Args:
    device: where the buffers are made.
    rows: the most rows that a route may have.
    experts: E of the gate.
    top_k: K, from 1 to experts.

Raises:
    TypeError, ValueError: a limit, with the value found.
    MemoryError: the device does not have it.)";

using GateHandle = std::shared_ptr<GateObject>;

void check_shape(const char *name, const HostArray &array, int64_t rows, int64_t columns,
                 const char *meaning) {
    if (array.is_shape({rows, columns})) return;
    wrong_value(std::string(name) + ": shape " + shown(array.shape()) + ", but it must be [" +
                std::to_string(rows) + ", " + std::to_string(columns) + "] (" + meaning + ")");
}

GateHandle make_gate(const Arg<DeviceObject> &device_arg, const Arg<ArrayInput> &weight_arg,
                     const Arg<ArrayInput> &scales_arg, const Arg<ArrayInput> &biases_arg) {
    const DevicePtr device = instance("device", device_arg);
    const HostArray weight("weight", weight_arg.value, {Element::uint32, Element::uint8});
    const HostArray scales("scales", scales_arg.value, {Element::float16});
    const HostArray biases("biases", biases_arg.value, {Element::float16});
    if (weight.dimensions() != 2) {
        wrong_value("weight: shape " + shown(weight.shape()) +
                    ", but it must be uint32 [experts, hidden/4] or uint8 [experts, hidden]");
    }
    const int64_t experts = weight.extent(0);
    const int64_t hidden = weight.extent(1) * info(weight.element()).size;
    check_gate_shape(hidden, experts);
    check_shape("scales", scales, experts, hidden / kQuantGroup, "[experts, hidden/64]");
    check_shape("biases", biases, experts, hidden / kQuantGroup, "[experts, hidden/64]");
    auto gate = std::make_shared<GateObject>(GateObject{device, nullptr});
    const auto context = device->context();
    without_gil([&] {
        gate->gate =
            Gate::create(context, experts, hidden, weight.memory(), scales.memory(), biases.memory());
    });
    return gate;
}

GateHandle gate_from(const Arg<DeviceObject> &device, const py::object &weights) {
    for (const char *part : {"weight", "scales", "biases"}) {
        if (!py::hasattr(weights, part)) {
            wrong_type("weights", weights, "an object with weight, scales and biases");
        }
    }
    // A checkpoint that uses its scores as they are cannot be routed here (GateWeights of load_gates).
    if (py::hasattr(weights, "require_renormalized")) weights.attr("require_renormalized")();
    return make_gate(device, {weights.attr("weight")}, {weights.attr("scales")}, {weights.attr("biases")});
}

GateHandle quantized_gate(const Arg<DeviceObject> &device, const Arg<ArrayInput> &dense) {
    instance("device", device);
    const auto arrays = py::module_::import("qwisp_native.arrays");
    const py::object array = arrays.attr("as_numpy")("dense", dense.value, "float16, float32 or float64");
    return gate_from(device, py::module_::import("qwisp_native.quantize").attr("quantize")(array));
}

// What a buffer that is private to the device holds: read back.
template <Element element, typename Name>
Named<Name> read_back(const std::shared_ptr<Context> &context, MTL::Buffer *buffer, int64_t rows,
                      int64_t columns) {
    py::array copy = empty(element, {py::ssize_t(rows), py::ssize_t(columns)});
    void *const to = copy.mutable_data();
    const auto length = size_t(copy.nbytes());
    without_gil([&] { read_buffer(context->queue(), buffer, to, length); });
    return view(element, {py::ssize_t(rows), py::ssize_t(columns)}, to, copy, false);
}

template <Element element, typename Name>
Named<Name> gate_array(const Gate &gate, MTL::Buffer *buffer, int64_t columns) {
    return read_back<element, Name>(gate.context(), buffer, gate.experts(), columns);
}

template <Element element, typename Name>
Named<Name> scratch_array(const Self<ScratchObject> &self, MTL::Buffer *buffer, int64_t columns) {
    const RouteScratch &scratch = *self->scratch;
    if (!is_visible(buffer)) {
        return read_back<element, Name>(self->device->context(), buffer, scratch.rows(), columns);
    }
    return view(element, {py::ssize_t(scratch.rows()), py::ssize_t(columns)}, buffer->contents(), self.object,
                true);
}

std::shared_ptr<ScratchObject> make_scratch(const Arg<DeviceObject> &device_arg, const Arg<int64_t> &rows_arg,
                                            const Arg<int64_t> &experts_arg, const Arg<int64_t> &top_k_arg) {
    const DevicePtr device = instance("device", device_arg);
    const int64_t rows = integer("rows", rows_arg), experts = integer("experts", experts_arg),
                  top_k = integer("top_k", top_k_arg);
    auto scratch = std::make_shared<ScratchObject>(ScratchObject{device, nullptr});
    const auto context = device->context();
    without_gil([&] { scratch->scratch = RouteScratch::create(context, rows, experts, top_k); });
    return scratch;
}

}  // namespace

void bind_gate(py::module_ &module) {
    using GateSelf = Self<GateObject>;
    using Scratch = Self<ScratchObject>;
    using enum Element;
    shared_class<GateObject>(module, "Gate", kGateDoc)
        .def(py::init(&make_gate), py::arg("device"), py::arg("weight"), py::arg("scales"), py::arg("biases"))
        .def_static("quantize", &quantized_gate, py::arg("device"), py::arg("dense"), kQuantizeDoc)
        .def_static("from_weights", &gate_from, py::arg("device"), py::arg("weights"), kFromWeightsDoc)
        .def_property_readonly(
            "experts", [](const GateSelf &self) { return self->gate->experts(); }, "E.")
        .def_property_readonly(
            "hidden", [](const GateSelf &self) { return self->gate->hidden(); }, "H.")
        .def_property_readonly(
            "device", [](const GateSelf &self) { return self->device; }, "Where it is.")
        .def_property_readonly(
            "weight",
            [](const GateSelf &self) {
                const Gate &gate = *self->gate;
                return gate_array<uint8, BytesArray>(gate, gate.weight(), gate.hidden());
            },
            "uint8 [E, H], read only: a copy, because gates are private to the device.")
        .def_property_readonly(
            "scales",
            [](const GateSelf &self) {
                const Gate &gate = *self->gate;
                return gate_array<float16, HalfArray>(gate, gate.scales(), gate.hidden() / kQuantGroup);
            },
            "float16 [E, H/64], read only: a copy, because gates are private to the device.")
        .def_property_readonly(
            "biases",
            [](const GateSelf &self) {
                const Gate &gate = *self->gate;
                return gate_array<float16, HalfArray>(gate, gate.biases(), gate.hidden() / kQuantGroup);
            },
            "float16 [E, H/64], read only: a copy, because gates are private to the device.")
        .def("__repr__", [](const GateSelf &self) {
            return "Gate(experts=" + std::to_string(self->gate->experts()) +
                   ", hidden=" + std::to_string(self->gate->hidden()) + ")";
        });

    shared_class<ScratchObject>(module, "RouteScratch", kScratchDoc)
        .def(py::init(&make_scratch), py::arg("device"), py::arg("rows"), py::arg("experts"),
             py::arg("top_k"))
        .def_property_readonly(
            "rows", [](const Scratch &self) { return self->scratch->rows(); }, "Its room.")
        .def_property_readonly(
            "experts", [](const Scratch &self) { return self->scratch->experts(); }, "E.")
        .def_property_readonly(
            "top_k", [](const Scratch &self) { return self->scratch->top_k(); }, "K.")
        .def_property_readonly(
            "device", [](const Scratch &self) { return self->device; }, "Where it is.")
        .def_property_readonly(
            "inds",
            [](const Scratch &self) {
                const RouteScratch &scratch = *self->scratch;
                return scratch_array<int32, IntArray>(self, scratch.inds(), scratch.top_k());
            },
            "int32 [rows, K], the chosen experts in order of choice.")
        .def_property_readonly(
            "scores",
            [](const Scratch &self) {
                const RouteScratch &scratch = *self->scratch;
                return scratch_array<float16, HalfArray>(self, scratch.scores(), scratch.top_k());
            },
            "float16 [rows, K], renormalised, in the same order.")
        .def_property_readonly(
            "logits",
            [](const Scratch &self) {
                const RouteScratch &scratch = *self->scratch;
                return scratch_array<float16, HalfArray>(self, scratch.logits(), scratch.experts());
            },
            "float16 [rows, E], raw. Written by the pair, or if logits or diag were asked for.")
        .def("__repr__", [](const Scratch &self) {
            return "RouteScratch(rows=" + std::to_string(self->scratch->rows()) +
                   ", experts=" + std::to_string(self->scratch->experts()) +
                   ", top_k=" + std::to_string(self->scratch->top_k()) + ")";
        });
}

}  // namespace qwisp::python
