#include "timing/harness.h"

#include "metal_runtime/drivers/cpu/vector/read_floor.h"
#include "objects.h"
#include "timing/planted.h"
#include "timing/probe.h"

namespace qwisp::python {
namespace {

constexpr const char *kTimingDoc =
    R"(Times arms against each other: command buffers of `layers` routes each, interleaved, every sample kept.

For qwisp_native.bench, which draws the conclusions. For one thread at a time.

Args:
    device: the device under test.
    arms: name -> fuse, as for Router; the first is what the others are held against.
    rows, hidden, experts, top_k: M >= 1, H, E, K.
    layers: routes in a command buffer, each with a gate of its own.
    x_sets: sets of input rows, one a round in rotation.
    blocks: sets of `layers` gates, in rotation.
    in_flight: command buffers committed at a time.
    concurrent: a concurrent encoder, with a barrier between layers.
    seed: of gates and rows.
    planted: a fault for tests (cpp/timing/planted.h); "": none.

Raises:
    TypeError, ValueError: an argument, with what it may be.
    DeviceError, MemoryError: the device says no.)";

constexpr const char *kRunDoc = R"(Times every arm once a round, for `rounds` rounds.

Args:
    first_round: the number of the first; it fixes the order of the arms and the input rows.
    rounds: how many.
    rotate: take other gates with each command buffer, not with each round.

Returns:
    One tuple a command buffer, in the order in which they ran; the fields are those of qwisp_native.bench.Sample.

Raises:
    DeviceError: a command buffer failed.)";

struct TimingObject {
    DevicePtr device;
    std::vector<std::string> names;
    std::shared_ptr<timing::Harness> harness;
};

using ArmsInput = py::typing::Dict<py::str, Named<FuseName>>;

std::vector<timing::Arm> arms_of(const DevicePtr &device, const ArmsInput &given) {
    std::vector<timing::Arm> arms;
    for (const auto &[name, fuse] : given) {
        const auto held_name = py::reinterpret_borrow<py::object>(name);
        const auto held_fuse = py::reinterpret_borrow<py::object>(fuse);
        arms.push_back(
            {text("arms", Arg<std::string>{held_name}), fuse_value(Arg<Fuse>{held_fuse}, device->fuse)});
    }
    return arms;
}

std::shared_ptr<TimingObject> make_timing(const Arg<DeviceObject> &device_arg, const ArmsInput &arms_arg,
                                          const Arg<int64_t> &rows, const Arg<int64_t> &hidden,
                                          const Arg<int64_t> &experts, const Arg<int64_t> &top_k,
                                          const Arg<int64_t> &layers, const Arg<int64_t> &x_sets,
                                          const Arg<int64_t> &blocks, const Arg<int64_t> &in_flight,
                                          const Arg<bool> &concurrent, const Arg<int64_t> &seed,
                                          const Arg<std::string> &planted) {
    auto made = std::make_shared<TimingObject>();
    made->device = instance("device", device_arg);
    const std::vector<timing::Arm> arms = arms_of(made->device, arms_arg);
    for (const timing::Arm &arm : arms) made->names.push_back(arm.name);
    timing::WorkloadOptions options;
    options.shape = {integer("rows", rows), integer("hidden", hidden), integer("experts", experts),
                     integer("top_k", top_k)};
    options.layers = integer("layers", layers);
    options.x_sets = integer("x_sets", x_sets);
    options.blocks = integer("blocks", blocks);
    options.in_flight = integer("in_flight", in_flight);
    options.seed = uint64_t(integer("seed", seed));
    const bool overlap = flag("concurrent", concurrent);
    const timing::Parts parts = timing::planted(text("planted", planted));
    const auto context = made->device->context();
    without_gil(
        [&] { made->harness = std::make_shared<timing::Harness>(context, arms, options, overlap, parts); });
    return made;
}

// The fields of timing::Sample.
using SampleTuple = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, uint64_t, double, double, int64_t,
                               int64_t, int64_t>;

std::vector<SampleTuple> run(const Self<TimingObject> &self, const Arg<int64_t> &first_arg,
                             const Arg<int64_t> &rounds_arg, const Arg<bool> &rotate_arg) {
    const int64_t first = integer("first_round", first_arg), rounds = integer("rounds", rounds_arg);
    const bool rotate = flag("rotate", rotate_arg);
    self->device->context();
    std::vector<SampleTuple> out;
    without_gil([&] {
        for (const timing::Sample &each : self->harness->run(first, rounds, rotate)) {
            out.emplace_back(each.round, each.arm, each.position, each.x_set, each.block, each.x_hash,
                             each.gpu.start, each.gpu.end, each.committed_ns, each.completed_ns,
                             each.wall_ns);
        }
    });
    return out;
}

template <typename Value>
Value named(const char *name, const Arg<std::string> &argument,
            std::initializer_list<std::pair<const char *, Value>> values) {
    const std::string found = text(name, argument);
    std::string known;
    for (const auto &[each, value] : values) {
        if (found == each) return value;
        known.append(known.empty() ? "'" : ", '").append(each).append("'");
    }
    wrong_value(std::string(name) + ": '" + found + "', but it must be one of " + known);
}

struct ProbeObject {
    DevicePtr device;
    std::shared_ptr<timing::DispatchProbe> probe;
};

std::shared_ptr<ProbeObject> make_probe(const Arg<DeviceObject> &device_arg, const Arg<int64_t> &most_arg) {
    auto made = std::make_shared<ProbeObject>();
    made->device = instance("device", device_arg);
    const int64_t most = integer("most", most_arg);
    const auto context = made->device->context();
    without_gil([&] { made->probe = std::make_shared<timing::DispatchProbe>(context, most); });
    return made;
}

using ProbeTimes = py::typing::Tuple<py::float_, py::float_>;

ProbeTimes probe(const Self<ProbeObject> &self, const Arg<std::string> &work_arg,
                 const Arg<std::string> &order_arg, const Arg<int64_t> &dispatches_arg) {
    using timing::Order, timing::Work;
    const Work work = named<Work>("work", work_arg, {{"empty", Work::empty}, {"tiny", Work::tiny}});
    const Order order = named<Order>(
        "order", order_arg,
        {{"serial", Order::serial}, {"concurrent", Order::concurrent}, {"barriers", Order::barriers}});
    const int64_t dispatches = integer("dispatches", dispatches_arg);
    self->device->context();
    timing::ProbeSample sample;
    without_gil([&] { sample = self->probe->run(work, order, dispatches); });
    return py::make_tuple(sample.gpu.end - sample.gpu.start, double(sample.wall_ns) * 1e-9);
}

size_t at_least_one(const char *name, const Arg<int64_t> &argument) {
    const int64_t number = integer(name, argument);
    if (number < 1)
        wrong_value(std::string(name) + ": " + std::to_string(number) + ", but it must be at least 1");
    return static_cast<size_t>(number);
}

}  // namespace

void bind_timing(py::module_ &module) {
    using Timing = Self<TimingObject>;
    shared_class<TimingObject>(module, "Timing", kTimingDoc)
        .def(py::init(&make_timing), py::arg("device"), py::arg("arms"), py::kw_only(), py::arg("rows"),
             py::arg("hidden"), py::arg("experts"), py::arg("top_k"), py::arg("layers"),
             py::arg("x_sets") = 4, py::arg("blocks") = 1, py::arg("in_flight") = 2,
             py::arg("concurrent") = false, py::arg("seed") = 0, py::arg("planted") = "")
        .def("run", &run, py::arg("first_round"), py::arg("rounds"), py::arg("rotate") = true, kRunDoc)
        .def(
            "planned",
            [](const Timing &self) {
                std::vector<std::shared_ptr<RoutePlan>> plans;
                for (size_t arm = 0; arm < self->names.size(); ++arm)
                    plans.push_back(std::make_shared<RoutePlan>(self->harness->plan(arm)));
                return plans;
            },
            "The plan of one layer of each arm.")
        .def(
            "encoded",
            [](const Timing &self) {
                std::vector<std::pair<std::vector<std::string>, uint64_t>> out;
                for (size_t arm = 0; arm < self->names.size(); ++arm) {
                    timing::Encoded found = self->harness->encoded(arm);
                    out.emplace_back(std::move(found.kernels), found.barriers);
                }
                return out;
            },
            "What an encoder saw of one command buffer of each arm: the kernels in order, and the barriers.")
        .def(
            "compared", [](const Timing &self) { return self->harness->outputs().compared(); },
            "How often the results of each arm were held against those of another.")
        .def(
            "difference", [](const Timing &self) { return self->harness->outputs().difference(); },
            "The first difference between results on the same rows and gates; empty: none.");
    shared_class<ProbeObject>(module, "DispatchProbe",
                              "Command buffers of dispatches that do next to nothing, up to `most` of them.")
        .def(py::init(&make_probe), py::arg("device"), py::arg("most"))
        .def(
            "run", &probe, py::arg("work"), py::arg("order"), py::arg("dispatches"),
            R"(Seconds of one command buffer: by the device's stamps, and from its commit until the host saw its end.

Args:
    work: "empty" (nothing is copied) or "tiny" (one id is remapped).
    order: "serial", "concurrent", or "barriers" (concurrent, with a barrier between any two dispatches).
    dispatches: how many, from 1 to `most`.)");
    using Floor = metal::vector::ReadFloor;
    shared_class<Floor>(module, "ReadFloor", R"(Weights that are only read: what no route on a CPU can beat.

Args:
    sets, bytes: how many, and the length of each, a multiple of 64; in memory like that of packed gates.

Raises:
    ValueError: sets or bytes.
    MemoryError: not so much memory.)")
        .def(py::init([](const Arg<int64_t> &sets, const Arg<int64_t> &bytes) {
                 return std::make_shared<Floor>(at_least_one("sets", sets), at_least_one("bytes", bytes));
             }),
             py::arg("sets"), py::arg("bytes"))
        .def(
            "run", [](const Self<Floor> &self) { without_gil([&] { self->run(); }); },
            "Reads every set in turn, each shared out among Device.threads.");
}

}  // namespace qwisp::python
