#include "device_array.h"
#include "metal_runtime/software_device.h"

namespace qwisp::python {
namespace {

constexpr const char *kRouterDoc =
    R"(Routes rows through a gate: hidden rows in, chosen experts and their scores out.

The results are those of docs/contract.md, bit for bit, whatever `fuse` is. A Router may be called from several
threads at once.

Args:
    gate: E experts, H columns.
    top_k: K, from 1 to E.
    fuse: None (the device's default, from QWISP_FUSE_ROUTE), False (the pair of kernels), True (fused where a
        variant exists, else the pair), "auto" (fused where it was measured to win), or a variant: "pair", "single",
        "last", "split_pair", "split_last".
    renormalize: only True: the contract always renormalises the K scores.

Raises:
    TypeError, ValueError: an argument, with the value found and what it may be.)";

constexpr const char *kRouterPlanDoc = R"(What a call with this many rows would run. Nothing is routed.

Args:
    rows: M.
    bias: with a residency bias of eps > 0.
    logits: with return_logits.
    fuse: instead of the router's own.

Raises:
    TypeError, ValueError: a limit, or a named variant that does not exist for this request.
    DeviceError: a kernel that the device cannot run.)";

// Signatures by hand: the result depends on return_logits, which pybind11 cannot say.
constexpr const char *kCallDoc = R"(__call__(*args, **kwargs)
Overloaded function.

1. __call__(self: qwisp_native._core.Router, x: qwisp_native.arrays.HostInput, *, return_logits: typing.Literal[False] = False, bias: qwisp_native._core.RouteBias | None = None, out: tuple[qwisp_native.arrays.ArrayInput, ...] | list[qwisp_native.arrays.ArrayInput] | None = None) -> tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.float16]]

Routes M rows. Blocks until done; the GIL is released meanwhile.

Args:
    x: float16 [M, H], C-contiguous: numpy or the buffer protocol; on the CPU device also DLPack on the CPU. M = 0
        gives empty arrays.
    return_logits: also return the raw gate logits.
    bias: prefer resident experts.
    out: (inds, scores) or, with return_logits, (inds, scores, logits), to be written and returned instead of fresh
        arrays. They must not overlap. They are written only once the device has succeeded.

Returns:
    inds: int32 [M, K], the chosen experts in order of choice. A row that is NaN or -inf may repeat expert 0; see
        repeated_rows.
    scores: float16 [M, K], renormalised, in the same order.
    logits: float16 [M, E], with return_logits.

Raises:
    TypeError, ValueError: an argument, with what it was and what it may be; a named variant that does not exist for
        this request.
    DeviceError: the device failed, with its own message.
    MemoryError: the device, or this process, does not have the memory.

2. __call__(self: qwisp_native._core.Router, x: qwisp_native.arrays.HostInput, *, return_logits: typing.Literal[True], bias: qwisp_native._core.RouteBias | None = None, out: tuple[qwisp_native.arrays.ArrayInput, ...] | list[qwisp_native.arrays.ArrayInput] | None = None) -> tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.float16], numpy.typing.NDArray[numpy.float16]]

The same, with raw logits.

3. __call__(self: qwisp_native._core.Router, x: qwisp_native.arrays.SupportsDLPack, *, return_logits: bool = False, bias: qwisp_native._core.RouteBias | None = None, out: tuple[qwisp_native.arrays.ArrayInput, ...] | list[qwisp_native.arrays.ArrayInput] | None = None, stream: qwisp_native.streams.StreamInput | None = None) -> tuple[typing.Any, ...]

The same for an array of another library. On the CPU it is taken as numpy's are. On CUDA, by a router whose device is
"cuda", it is routed where it is, in the order of a stream: the call returns at once, and its results are DeviceArrays.

The call may be captured into a CUDA graph (torch.cuda.graph). It then has memory of its own, results included, that
lives as long as the Router; keep the Router and x for as long as the graph is replayed.

Args:
    x: as above; on CUDA without grad, on the device's own GPU (the first).
    return_logits, bias: as above. On CUDA, a Buffer as `resident` is read when the stream comes to it.
    out: as above; not on CUDA.
    stream: for x on CUDA. None: torch's current stream for a tensor of torch's, else the legacy default stream.
        Otherwise 1 (that one; so is 0), 2 (the thread's own), a valid stream's handle, or an object with
        __cuda_stream__ or cuda_stream. x's library makes it wait for x; -1 is the legacy default stream without
        that wait.

Returns:
    (inds, scores) or (inds, scores, logits): DeviceArrays for x on CUDA, else numpy arrays.

Raises:
    As above.
)";

struct OutputSpec {
    const char *name;
    Element element;
    int64_t columns;
};

// The arrays that a call fills: fresh ones, or the caller's.
class Outputs {
  public:
    Outputs(std::span<const OutputSpec> specs, int64_t rows, const py::object &out) : result_(specs.size()) {
        if (out.is_none()) {
            for (size_t i = 0; i < specs.size(); ++i) add_fresh(i, specs[i], rows);
            return;
        }
        if (!PyTuple_Check(out.ptr()) && !PyList_Check(out.ptr()))
            wrong_type("out", out, "a tuple or a list of arrays");
        const py::tuple given(out);
        if (given.size() != specs.size()) {
            wrong_value("out: " + std::to_string(given.size()) + " arrays, but it must be " +
                        (specs.size() == 2 ? "(inds, scores)" : "(inds, scores, logits)"));
        }
        for (size_t i = 0; i < specs.size(); ++i) add_given(i, specs[i], rows, given[i]);
        check_overlap(specs);
    }

    std::span<std::byte> memory(size_t i) const { return memory_[i]; }
    py::tuple result() const { return result_; }

  private:
    void add_fresh(size_t i, const OutputSpec &spec, int64_t rows) {
        py::array array = empty(spec.element, {rows, spec.columns});
        memory_[i] = {static_cast<std::byte *>(array.mutable_data()), size_t(array.nbytes())};
        result_[i] = std::move(array);
    }

    void add_given(size_t i, const OutputSpec &spec, int64_t rows, const py::object &given) {
        const std::string name = std::string("out ") + spec.name;
        HostArray &array =
            arrays_[i].emplace(name.c_str(), given, std::initializer_list<Element>{spec.element});
        if (!array.is_shape({rows, spec.columns})) {
            wrong_value(name + ": shape " + shown(array.shape()) + ", but it must be " +
                        shown(Shape{rows, spec.columns}));
        }
        if (!array.writeable()) wrong_value(name + ": read only, but it must be writeable");
        memory_[i] = array.mutable_memory();
        result_[i] = given;
    }

    void check_overlap(std::span<const OutputSpec> specs) const {
        for (size_t i = 0; i < specs.size(); ++i) {
            for (size_t j = 0; j < i; ++j) {
                const auto a = memory_[i], b = memory_[j];
                if (a.data() < b.data() + b.size() && b.data() < a.data() + a.size()) {
                    wrong_value(std::string("out: ") + specs[j].name + " and " + specs[i].name +
                                " overlap, but they must be apart");
                }
            }
        }
    }

    py::tuple result_;
    std::optional<HostArray> arrays_[3];
    std::span<std::byte> memory_[3];
};

[[noreturn]] void refuse_rows(const Shape &shape, const Gate &gate) {
    wrong_value("x: shape " + shown(shape) +
                ", but it must be [rows, hidden=" + std::to_string(gate.hidden()) + "]");
}

// Of qwisp_native.streams.on_stream.
py::tuple call_on_stream(const RouterObject &self, const py::tuple &given, bool with_logits,
                         const Arg<std::optional<BiasObject>> &bias_arg) {
    const Gate &gate = *self.gate->gate;
    const DevicePtr &device = self.gate->device;
    DeviceRows x = device_rows("x", given[0]);
    if (x.shape.size() != 2 || x.shape[1] != py::ssize_t(gate.hidden())) refuse_rows(x.shape, gate);
    const RouteShape shape{x.shape[0], gate.hidden(), gate.experts(), self.router->top_k()};
    check_route_shape(shape);
    StreamInput input;
    input.rows = shape.rows;
    input.x = x.address;
    input.logits = with_logits;
    input.stream = metal::Stream(py::cast<int64_t>(given[1]));
    if (!py::cast<bool>(given[2])) input.keep = x.keep;
    if (const auto bias = instance("bias", bias_arg)) {
        input.bias = {bias->on_device(device, gate.experts()), bias->eps};
    }
    std::vector<std::shared_ptr<void>> dropped;  // with the interpreter held, but what waits goes without it
    std::shared_ptr<StreamResults> results;
    without_gil([&] {
        dropped = self.on_streams->done();
        results = self.on_streams->route(input);
    });
    const auto array = [&](const BufferPtr &memory, Element element, int64_t columns) {
        return std::make_shared<DeviceArrayObject>(
            DeviceArrayObject{device, results, memory, element, {shape.rows, columns}});
    };
    const auto inds = array(results->inds(), Element::int32, shape.top_k);
    const auto scores = array(results->scores(), Element::float16, shape.top_k);
    if (!with_logits) return py::make_tuple(inds, scores);
    return py::make_tuple(inds, scores, array(results->logits(), Element::float16, shape.experts));
}

// None if x is on the host.
py::object given_on_stream(const RouterObject &self, const py::object &x, const py::object &stream) {
    if (!self.on_streams) {
        if (stream.is_none()) return stream;
        wrong_value("stream: " + shown(stream) + ", but the router's device, '" + self.gate->device->kind +
                    "', has no streams");
    }
    if (stream.is_none() && Py_TYPE(x.ptr()) == py::detail::npy_api::get().PyArray_Type_) return stream;
    return py::module_::import("qwisp_native.streams").attr("on_stream")(x, stream, kCudaIndex);
}

py::tuple call(const Self<RouterObject> &self, const Arg<ArrayInput> &x_arg, const Arg<bool> &return_logits,
               const Arg<std::optional<BiasObject>> &bias_arg, const py::object &out,
               const py::object &stream) {
    const Gate &gate = *self->gate->gate;
    self->gate->device->context();
    const py::object given = given_on_stream(*self, x_arg.value, stream);
    if (!given.is_none()) {
        if (!out.is_none()) wrong_value("out: given, but it must be None for x on CUDA");
        return call_on_stream(*self, given, flag("return_logits", return_logits), bias_arg);
    }
    const HostArray x("x", x_arg.value, {Element::float16});
    if (x.dimensions() != 2 || x.extent(1) != gate.hidden()) refuse_rows(x.shape(), gate);
    const bool with_logits = flag("return_logits", return_logits);
    const auto bias = instance("bias", bias_arg);
    RouterInput input;
    input.rows = x.extent(0);
    input.x = x.memory();
    if (bias) input.bias = {bias->on_host(gate.experts()), bias->eps};
    check_route_shape({input.rows, gate.hidden(), gate.experts(), self->router->top_k()});

    const OutputSpec specs[] = {{"inds", Element::int32, self->router->top_k()},
                                {"scores", Element::float16, self->router->top_k()},
                                {"logits", Element::float16, gate.experts()}};
    const Outputs outputs({specs, with_logits ? size_t{3} : size_t{2}}, input.rows, out);
    RouterOutput output;
    output.inds = outputs.memory(0);
    output.scores = outputs.memory(1);
    if (with_logits) output.logits = outputs.memory(2);
    without_gil([&] { self->router->route(input, output); });
    return outputs.result();
}

std::shared_ptr<RouterObject> make_router(const Arg<GateObject> &gate_arg, const Arg<int64_t> &top_k,
                                          const Arg<Fuse> &fuse, const Arg<bool> &renormalize) {
    auto gate = instance("gate", gate_arg);
    if (!flag("renormalize", renormalize)) {
        wrong_value("renormalize: False, but it must be True: the contract always renormalises the scores");
    }
    const Fuse chosen = fuse_value(fuse, gate->device->fuse);
    auto router = std::make_shared<Router>(gate->gate, integer("top_k", top_k), chosen);
    std::shared_ptr<StreamRouter> on_streams;
    if (metal::streams_of(gate->device->metal())) {
        on_streams = std::shared_ptr<StreamRouter>(new StreamRouter(router), [](StreamRouter *dropped) {
            without_gil([&] { dropped->finish(); });  // kept tensors are let go with the interpreter held
            delete dropped;
        });
    }
    return std::make_shared<RouterObject>(
        RouterObject{std::move(gate), std::move(router), std::move(on_streams)});
}

std::shared_ptr<RoutePlan> make_router_plan(const Self<RouterObject> &self, const Arg<int64_t> &rows_arg,
                                            const Arg<bool> &bias, const Arg<bool> &logits,
                                            const Arg<Fuse> &fuse_arg) {
    self->gate->device->context();
    const int64_t rows = integer("rows", rows_arg);
    const bool biased = flag("bias", bias), with_logits = flag("logits", logits);
    const Fuse fuse = fuse_value(fuse_arg, self->router->fuse());
    auto plan = std::make_shared<RoutePlan>();
    without_gil([&] { *plan = self->router->plan(rows, biased, with_logits, fuse); });
    return plan;
}

}  // namespace

void bind_router(py::module_ &module) {
    using RouterSelf = Self<RouterObject>;
    auto router = shared_class<RouterObject>(module, "Router", kRouterDoc);
    router
        .def(py::init(&make_router), py::arg("gate"), py::arg("top_k") = 8, py::arg("fuse") = py::none(),
             py::arg("renormalize") = true)
        .def("plan", &make_router_plan, py::arg("rows"), py::kw_only(), py::arg("bias") = false,
             py::arg("logits") = false, py::arg("fuse") = py::none(), kRouterPlanDoc)
        .def_property_readonly(
            "gate", [](const RouterSelf &self) { return self->gate; }, "Its gate.")
        .def_property_readonly(
            "top_k", [](const RouterSelf &self) { return self->router->top_k(); }, "K.")
        .def_property_readonly(
            "fuse", [](const RouterSelf &self) { return fuse_object(self->router->fuse()); },
            "What it was asked: False, True, \"auto\" or the name of a variant.")
        .def("__repr__", [](const RouterSelf &self) {
            const Gate &gate = *self->gate->gate;
            return "Router(experts=" + std::to_string(gate.experts()) +
                   ", hidden=" + std::to_string(gate.hidden()) +
                   ", top_k=" + std::to_string(self->router->top_k()) +
                   ", fuse=" + shown(fuse_object(self->router->fuse())) + ")";
        });
    py::options options;
    options.disable_function_signatures();
    router.def("__call__", &call, py::arg("x"), py::kw_only(), py::arg("return_logits") = false,
               py::arg("bias") = py::none(), py::arg("out") = py::none(), py::arg("stream") = py::none(),
               kCallDoc);
}

}  // namespace qwisp::python
