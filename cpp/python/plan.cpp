#include "objects.h"

#include <algorithm>

namespace qwisp::python {
namespace {

constexpr const char *kPlanDoc = R"(Which kernels a route runs, and why.)";

constexpr const char *kPlanFunctionDoc = R"(What a route of this shape would run. Nothing is routed.

Args:
    device: the device that would run it.
    rows, hidden, experts, top_k: M >= 0, H, E, K. M * H and M * E must be below 2^31.
    fuse: None (the device's default, from QWISP_FUSE_ROUTE), False, True (fused where a variant exists, else the
        pair), "auto" (fused where it was measured to win), or a variant: "pair", "single", "last",
        "split_pair", "split_last".
    bias: with a residency bias of eps > 0.
    logits: with raw logits wanted.
    diag: with telemetry.
    remap: with a slot table.

Raises:
    TypeError, ValueError: a limit, with the value found; a named variant that does not exist for this request.
    DeviceError: a kernel that the device cannot run.)";

std::shared_ptr<RoutePlan> make_plan(const Arg<DeviceObject> &device_arg, const Arg<int64_t> &rows,
                                     const Arg<int64_t> &hidden, const Arg<int64_t> &experts,
                                     const Arg<int64_t> &top_k, const Arg<Fuse> &fuse, const Arg<bool> &bias,
                                     const Arg<bool> &logits, const Arg<bool> &diag, const Arg<bool> &remap) {
    const DevicePtr device = instance("device", device_arg);
    RouteRequest request;
    request.shape = {integer("rows", rows), integer("hidden", hidden), integer("experts", experts),
                     integer("top_k", top_k)};
    request.fuse = fuse_value(fuse, device->fuse);
    request.bias = flag("bias", bias);
    request.logits = flag("logits", logits);
    request.remap = flag("remap", remap);
    if (flag("diag", diag)) {
        check_route_shape(request.shape);
        request.diag = diag_copy(request.shape, {.max_rows = std::max<int64_t>(request.shape.rows, 1)});
    }
    auto plan = std::make_shared<RoutePlan>();
    const auto context = device->context();
    without_gil([&] { *plan = plan_route(context, request); });
    return plan;
}

struct NamedFuse {
    const char *name;
    Fuse fuse;
};
constexpr NamedFuse kFuseNames[] = {{"auto", Fuse::automatic},        {"pair", Fuse::pair},
                                    {"single", Fuse::single},         {"last", Fuse::last},
                                    {"split_pair", Fuse::split_pair}, {"split_last", Fuse::split_last}};
constexpr const char *kFuseValues =
    "None, False, True, 'auto', 'pair', 'single', 'last', 'split_pair' or 'split_last'";

}  // namespace

Fuse fuse_value(const Arg<Fuse> &argument, Fuse otherwise) {
    PyObject *value = argument.value.ptr();
    if (value == Py_None) return otherwise;
    if (value == Py_True) return Fuse::on;
    if (value == Py_False) return Fuse::off;
    if (!PyUnicode_Check(value)) wrong_type("fuse", argument.value, kFuseValues);
    for (const NamedFuse &each : kFuseNames) {
        if (PyUnicode_CompareWithASCIIString(value, each.name) == 0) return each.fuse;
    }
    wrong_value("fuse: " + shown(argument.value) + ", but it must be " + kFuseValues);
}

Named<FuseName> fuse_object(Fuse fuse) {
    for (const NamedFuse &each : kFuseNames) {
        if (each.fuse == fuse) return py::object(py::str(each.name));
    }
    return py::object(py::bool_(fuse == Fuse::on));
}

void bind_plan(py::module_ &module) {
    using Plan = Self<RoutePlan>;
    shared_class<RoutePlan>(module, "RoutePlan", kPlanDoc)
        .def_property_readonly(
            "kernels",
            [](const Plan &self) -> py::typing::Tuple<py::str, py::ellipsis> {
                py::tuple names(self->steps.size());
                for (size_t i = 0; i < self->steps.size(); ++i) names[i] = kernel_name(self->steps[i].kernel);
                return names;
            },
            "The kernels, in order; none for 0 rows.")
        .def_property_readonly(
            "dispatches", [](const Plan &self) { return self->steps.size(); }, "How many there are.")
        .def_property_readonly(
            "barriers", [](const Plan &self) { return self->barriers(); },
            "Barriers that a concurrent encoder gets; a serial one needs none.")
        .def_property_readonly(
            "variant", [](const Plan &self) { return variant_name(self->variant); },
            "\"pair\", \"single\" or \"last\".")
        .def_property_readonly(
            "reason", [](const Plan &self) { return self->reason; }, "Why this variant.")
        .def("__repr__", [](const Plan &self) {
            std::string text = std::string("RoutePlan(") + variant_name(self->variant) + ":";
            for (const RouteStep &step : self->steps) text.append(" ").append(kernel_name(step.kernel));
            return text.append("; ").append(self->reason).append(")");
        });
    module.def("plan", &make_plan, py::arg("device"), py::arg("rows"), py::arg("hidden"), py::arg("experts"),
               py::arg("top_k"), py::arg("fuse") = py::none(), py::arg("bias") = false,
               py::arg("logits") = false, py::arg("diag") = false, py::arg("remap") = false,
               kPlanFunctionDoc);
}

}  // namespace qwisp::python
