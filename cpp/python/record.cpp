#include "encode.h"
#include "metal_runtime/device/recording.h"
#include "metal_runtime/drivers/cpu/images.h"
#include "route/errors.h"

namespace qwisp::python {
namespace {

using metal::RecordedBinding;
using metal::RecordedCommand;

py::object binding(const RecordedBinding &recorded) {
    if (!recorded.bytes.empty()) {
        const auto *bytes = reinterpret_cast<const char *>(recorded.bytes.data());
        return py::make_tuple(recorded.slot, py::bytes(bytes, recorded.bytes.size()));
    }
    return py::make_tuple(recorded.slot, recorded.buffer, recorded.offset);
}

py::dict constants(const RouteStep &step) {
    py::dict values;
    if (step.constants == FusedConstants{}) return values;
    values["use_bias"] = step.constants.use_bias;
    values["write_logits"] = step.constants.write_logits;
    values["hidden"] = step.constants.hidden;
    values["experts"] = step.constants.experts;
    values["top_k"] = step.constants.top_k;
    if (step.constants.tile_rows != 0) values["tile_rows"] = step.constants.tile_rows;
    return values;
}

// One tuple a command: (kernel, constants, bindings, groups, threads), or None for a barrier.
using Commands = py::typing::List<py::object>;

Commands record(const EncodeArguments &arguments, bool concurrent) {
    AutoreleaseScope pool;
    metal::Recording recording(arguments.device()->metal(),
                               concurrent ? MTL::DispatchTypeConcurrent : MTL::DispatchTypeSerial);
    encode_moe_route_rows(recording.encoder(), arguments.plan(), arguments.operands());
    recording.encoder()->endEncoding();
    Commands out;
    size_t step = 0;
    for (const RecordedCommand &command : recording.commands()) {
        if (command.kind == RecordedCommand::Kind::barrier) {
            out.append(py::none());
            continue;
        }
        py::list bindings;
        for (const RecordedBinding &each : command.bindings) bindings.append(binding(each));
        out.append(py::make_tuple(command.pipeline, constants(arguments.plan().steps.at(step++)), bindings,
                                  py::cast(command.grid), py::cast(command.threads)));
    }
    return out;
}

py::bytes bytes_of(const RouteScratch &scratch, MTL::Buffer *buffer) {
    std::string bytes(buffer->length(), '\0');
    without_gil([&] { read_buffer(scratch.context()->queue(), buffer, bytes.data(), bytes.size()); });
    return {bytes};
}

}  // namespace

void bind_record(py::module_ &module) {
    module.def(
        "record_route",
        [](const Arg<BufferObject> &x, const Arg<GateObject> &gate, const Arg<ScratchObject> &scratch,
           const Arg<int64_t> &rows, const Arg<Fuse> &fuse, const Arg<std::optional<BiasObject>> &bias,
           const Arg<std::optional<DiagObject>> &diag, const Arg<RemapInput> &remap,
           const Arg<bool> &return_logits, const Arg<bool> &concurrent) {
            const EncodeArguments arguments(x, gate, scratch, rows, fuse, bias, diag, remap.value,
                                            return_logits);
            return record(arguments, flag("concurrent", concurrent));
        },
        py::arg("x"), py::arg("gate"), py::arg("scratch"), py::kw_only(), py::arg("rows"),
        py::arg("fuse") = py::none(), py::arg("bias") = py::none(), py::arg("diag") = py::none(),
        py::arg("remap") = py::none(), py::arg("return_logits") = false, py::arg("concurrent") = false,
        "For qwisp_native.testing.record_route.");
    module.def(
        "scratch_state",
        [](const Arg<ScratchObject> &scratch) {
            const RouteScratch &state = *instance("scratch", scratch)->scratch;
            return py::make_tuple(bytes_of(state, state.arrivals()), bytes_of(state, state.words()));
        },
        py::arg("scratch"), "For qwisp_native.testing.scratch_is_cleared.");
    module.def(
        "load_kernel_image",
        [](const std::string &path) {
            const std::string error = simt::load_kernel_image(path);
            if (!error.empty()) throw DeviceError(error);
        },
        py::arg("path"), "For qwisp_native.testing.load_kernel_image.");
}

}  // namespace qwisp::python
