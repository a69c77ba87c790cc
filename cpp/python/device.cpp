#include <map>
#include <set>
#include <tuple>

#include "metal_runtime/software_device.h"
#include "objects.h"
#include "route/devices.h"
#include "route/errors.h"
#include "route/shader_text.h"

namespace qwisp::python {
namespace {

constexpr const char *kDeviceDoc =
    R"(A device that routes. Shaders are compiled when it is made, on "cuda" each kernel at first use.

Args:
    kind: "cpu" (the software device: the shaders' threads run on the processor), "cuda" (an NVIDIA GPU) or
        "metal" (an Apple GPU). None: QWISP_DEVICE, or the best that there is: "metal", else "cuda", else "cpu".
    contract: "off" (every operation rounds on its own, as docs/contract.md section 2 has it) or "compiler"
        (multiplications and additions contract as the compiler likes, for parity with an engine that is built
        so). None: QWISP_CONTRACT.

Raises:
    TypeError, ValueError: a kind or contract that does not exist, or an environment variable that is wrong.
    DeviceError: the device is not here, or the shaders do not compile (with the compiler's own message).

A device may be used from several threads at once.)";

constexpr const char *kSeedDoc =
    R"(Seed of all that the software device may choose: the order of threads and threadgroups, what others see of memory.

None: natural order, one threadgroup after another. With a seed the shaders run as docs/reliability.md says, and
two accesses that nothing orders are an error that names the seed. The seed belongs to the software device of the process, so all Device("cpu")
objects share it. The first value comes from QWISP_SIMT_SEED.

Raises:
    TypeError: not an int or None.
    ValueError: a seed below 0 or above 2^63 - 1, or a device that is not the software device.)";

constexpr const char *kKernelsDoc =
    R"(How the device runs kernels. All choices give the same bits. It belongs to the device of the process.

"cpu": "avx512", "avx2", "neon" or "portable" (the vector kernels), or "simt" (the shaders themselves, thread by
thread: a thousand times slower, and checks every access). The first value comes from QWISP_CPU_KERNELS; without
it, the best that this processor runs. A simt_seed implies "simt".

"cuda": "dependent" (a command buffer is a CUDA graph, and a kernel may start before the one before it has ended;
compute capability 9.0 and a driver for CUDA 12.3, or later), "graph" (without that) or "stream" (one launch a dispatch).

"" on "metal".

Raises:
    TypeError: not a str.
    ValueError: not one of kernel_names.)";

constexpr const char *kThreadsDoc =
    R"(Threads that compute on the software device, the calling one included; 1 on other devices.

It belongs to the process. The first value comes from QWISP_CPU_THREADS; without it, as many as processors are
available, 4 at most.

Raises:
    TypeError: not an int.
    ValueError: not 1 to 64, or a device that is not the software device.)";

// What the CUDA driver takes from Python. Before its first use, hence before any look for devices.
void set_up_cuda() {
    static bool done = false;  // guarded by the GIL
    if (done) return;
    const auto [nvrtc, folder] = py::cast<std::pair<std::vector<std::string>, std::string>>(
        py::module_::import("qwisp_native.cuda").attr("set_up")());
    if (done) return;  // another thread came in between
    metal::set_up_cuda(nvrtc, folder);
    done = true;
}

std::string why_no_cuda_device() {
    set_up_cuda();
    std::string why;
    without_gil([&] { why = metal::why_no_cuda_device(); });
    return why;
}

const DeviceEntry *find(const std::vector<DeviceEntry> &entries, const std::string &kind) {
    for (const DeviceEntry &entry : entries) {
        if (kind.empty() || entry.kind == kind) return &entry;
    }
    return nullptr;
}

std::string kinds_here(const std::vector<DeviceEntry> &entries) {
    std::set<std::string> kinds;
    for (const DeviceEntry &entry : entries) kinds.insert("'" + entry.kind + "'");
    std::string out;
    for (const std::string &kind : kinds) out += (out.empty() ? "" : ", ") + kind;
    return out.empty() ? "none" : out;
}

Contract contract_value(const std::string &name) {
    if (name == "off") return Contract::off;
    if (name == "compiler") return Contract::compiler;
    wrong_value("contract: '" + name + "', but it must be 'off' or 'compiler'");
}

const char *contract_name(Contract contract) { return contract == Contract::off ? "off" : "compiler"; }

Variant variant_value(const std::string &name) {
    for (Variant variant : kVariants) {
        if (name == variant_name(variant)) return variant;
    }
    throw std::logic_error("a verdict for the variant '" + name + "'");
}

// What `qwisp-native tune` found on this device.
Verdicts stored_verdicts(const DeviceEntry &entry, Contract contract, const std::string &sha256) {
    const py::object stored = py::module_::import("qwisp_native.verdicts")
                                  .attr("stored")(entry.kind, entry.name, contract_name(contract), sha256);
    Verdicts verdicts;
    for (const auto &[shape, variant] :
         py::cast<std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, std::string>>(stored)) {
        const auto [rows, hidden, experts, top_k] = shape;
        verdicts[{rows, hidden, experts, top_k}] = variant_value(variant);
    }
    return verdicts;
}

void set_seed(const DeviceObject &device, std::optional<uint64_t> seed) {
    if (device.kind != "cpu")
        wrong_value("simt_seed: the device is '" + device.kind + "', but only 'cpu' has one");
    metal::set_shuffle_seed(device.metal(), seed);
}

metal::Driver *driver_of(const DeviceObject &device) { return metal::driver_of(device.metal()); }

std::vector<std::string> kernel_names(const DeviceObject &device) {
    const metal::Driver *const driver = driver_of(device);
    if (driver == nullptr) return {};
    const auto names = driver->kernel_names();
    return {names.begin(), names.end()};
}

void set_kernels(const DeviceObject &device, const std::string &what, const std::string &name) {
    metal::Driver *const driver = driver_of(device);
    if (driver != nullptr && driver->set_kernels(name)) return;
    std::string here;
    for (const std::string &known : kernel_names(device)) here += (here.empty() ? "'" : ", '") + known + "'";
    wrong_value(what + ": '" + name + "', but this device has " + (here.empty() ? "no choice" : here));
}

void set_threads(const DeviceObject &device, const std::string &what, int64_t threads) {
    if (device.kind != "cpu")
        wrong_value(what + ": the device is '" + device.kind + "', but only 'cpu' has threads");
    const auto most = py::module_::import("qwisp_native.settings").attr("MAX_THREADS").cast<int64_t>();
    if (threads < 1 || threads > most) {
        wrong_value(what + ": " + std::to_string(threads) + ", but it must be 1 to " + std::to_string(most));
    }
    driver_of(device)->set_threads(uint32_t(threads));
}

DevicePtr make_device(const Arg<std::optional<std::string>> &kind_arg,
                      const Arg<std::optional<std::string>> &contract_arg) {
    const py::object settings = py::module_::import("qwisp_native.settings").attr("current")();
    const auto chosen = [&](const char *name, const py::object &given, const char *setting) {
        const py::object value = given.is_none() ? settings.attr(setting) : given;
        return value.is_none() ? std::string() : text(name, Arg<std::string>{value});
    };
    const std::string kind = chosen("kind", kind_arg.value, "device");
    if (!kind_arg.is_none() && kind != "cpu" && kind != "cuda" && kind != "metal") {
        wrong_value("kind: '" + kind + "', but it must be 'cpu', 'cuda' or 'metal'");
    }
    const Contract contract = contract_value(chosen("contract", contract_arg.value, "contract"));
    std::string shaders;
    std::string sha256(shader_sha256());
    if (!settings.attr("shader_dir").is_none()) {
        const py::tuple loaded =
            py::module_::import("qwisp_native.shaders").attr("load")(settings.attr("shader_dir"));
        shaders = py::cast<std::string>(loaded[0]);
        sha256 = py::cast<std::string>(loaded[1]);
    }

    set_up_cuda();
    std::vector<DeviceEntry> entries;
    std::shared_ptr<Context> context;
    const DeviceEntry *entry = nullptr;
    without_gil([&] {
        entries = available_devices();
        entry = find(entries, kind);
        if (!entry) {
            throw DeviceError("device '" + kind + "' is not available; this machine has " +
                              kinds_here(entries) +
                              (kind == "cuda" ? "; cuda: " + metal::why_no_cuda_device() : ""));
        }
    });
    const Verdicts verdicts = stored_verdicts(*entry, contract, sha256);
    without_gil([&] {
        context = Context::create(entry->device.get(),
                                  {.contract = contract, .shader_text = shaders, .verdicts = verdicts});
    });
    const Fuse fuse = fuse_value(Arg<Fuse>{settings.attr("fuse")}, Fuse::off);
    auto device = std::make_shared<DeviceObject>(entry->kind, entry->name, sha256, fuse, std::move(context));
    static bool set_up = false;  // guarded by the GIL; what was set since stays
    if (entry->kind == "cpu" && !set_up) {
        const py::object seed = settings.attr("simt_seed"), kernels = settings.attr("cpu_kernels"),
                         threads = settings.attr("cpu_threads");
        if (!seed.is_none()) set_seed(*device, uint64_t(integer("QWISP_SIMT_SEED", Arg<int64_t>{seed})));
        if (!kernels.is_none()) {
            set_kernels(*device, "QWISP_CPU_KERNELS", text("QWISP_CPU_KERNELS", Arg<std::string>{kernels}));
        }
        if (!threads.is_none()) {
            set_threads(*device, "QWISP_CPU_THREADS", integer("QWISP_CPU_THREADS", Arg<int64_t>{threads}));
        }
        set_up = true;
    }
    return device;
}

using DeviceNames = py::typing::List<py::typing::Tuple<py::str, py::str>>;

DeviceNames devices_here() {
    set_up_cuda();
    std::vector<DeviceEntry> entries;
    without_gil([&] { entries = available_devices(); });
    py::list out;
    for (const DeviceEntry &entry : entries) out.append(py::make_tuple(entry.kind, entry.name));
    return out;
}

}  // namespace

const std::shared_ptr<Context> &DeviceObject::context() const {
    if (kind != "cpu" && generation_ != fork_generation()) {
        throw std::runtime_error(std::string("device: made before this process was forked, and ") +
                                 (kind == "cuda" ? "CUDA" : "Metal") +
                                 " does not survive a fork; make a new Device in a process that is started "
                                 "afresh (multiprocessing: 'spawn')");
    }
    return context_;
}

void bind_device(py::module_ &module) {
    using Device = Self<DeviceObject>;
    module.def("available_devices", devices_here,
               py::doc("(kind, name) of each device that can be used now."));
    module.def("why_no_cuda_device", why_no_cuda_device,
               py::doc("Why \"cuda\" is not among available_devices(); \"\" if it is."));
    module.def(
        "shader_sha256", [] { return std::string(shader_sha256()); },
        py::doc("SHA-256, in hex, of the shader text in this module."));
    shared_class<DeviceObject>(module, "Device", kDeviceDoc)
        .def(py::init(&make_device), py::arg("kind") = py::none(), py::kw_only(),
             py::arg("contract") = py::none())
        .def_property_readonly(
            "kind", [](const Device &self) { return self->kind; }, "\"cpu\", \"cuda\" or \"metal\".")
        .def_property_readonly(
            "name", [](const Device &self) { return self->name; }, "The device's own name.")
        .def_property_readonly(
            "contract", [](const Device &self) { return contract_name(self->context()->contract()); },
            "\"off\" or \"compiler\".")
        .def_property_readonly(
            "shader_sha256", [](const Device &self) { return self->sha256; },
            "SHA-256, in hex, of the shader text that this device compiled.")
        .def_property(
            "simt_seed",
            [](const Device &self) -> std::optional<uint64_t> {
                if (self->kind != "cpu") return std::nullopt;
                return metal::shuffle_seed(self->metal());
            },
            [](const Device &self, const Arg<std::optional<int64_t>> &seed) {
                if (seed.is_none()) return set_seed(*self, std::nullopt);
                const int64_t value = integer("simt_seed", Arg<int64_t>{seed.value});
                if (value < 0)
                    wrong_value("simt_seed: " + std::to_string(value) + ", but it must not be negative");
                set_seed(*self, uint64_t(value));
            },
            kSeedDoc)
        .def_property(
            "kernels",
            [](const Device &self) {
                const metal::Driver *const driver = driver_of(*self);
                return driver == nullptr ? std::string() : std::string(driver->kernels());
            },
            [](const Device &self, const Arg<std::string> &name) {
                set_kernels(*self, "kernels", text("kernels", name));
            },
            kKernelsDoc)
        .def_property_readonly(
            "kernel_names",
            [](const Device &self) { return py::typing::List<py::str>(py::cast(kernel_names(*self))); },
            "What `kernels` may be here, best first; empty on devices that have no choice.")
        .def_property(
            "threads",
            [](const Device &self) {
                return self->kind == "cpu" ? driver_of(*self)->threads() : uint32_t(1);
            },
            [](const Device &self, const Arg<int64_t> &threads) {
                set_threads(*self, "threads", integer("threads", threads));
            },
            kThreadsDoc)
        .def("__repr__",
             [](const Device &self) { return "Device('" + self->kind + "', " + self->name + ")"; });
}

}  // namespace qwisp::python
