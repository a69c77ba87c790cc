#include "commands.h"

#include <algorithm>

#include "route/errors.h"
#include "route/outcome.h"

namespace qwisp::python {
namespace {

constexpr const char *kCommandsDoc = R"(Commands for a device, run in order once they are committed.

Made by Device.command_buffer. Fill it through one or more encoders, one at a time, then commit it and wait. A
call out of order is a RuntimeError. Not needed for Router, which has its own.)";

constexpr const char *kWaitDoc = R"(Blocks until the commands have run. The GIL is released meanwhile.

Raises:
    RuntimeError: the command buffer is not committed.
    DeviceError: a command failed, with the device's own message. Scratches that it used are cleared, so they can
        be used again.)";

constexpr const char *kEncoderDoc =
    R"(Writes commands into a command buffer. A context manager: it ends on leaving.

Serial (the default): each command sees what those before it wrote. Concurrent: commands may overlap;
encode_moe_route_rows issues the barriers inside a route, and the caller calls memory_barrier between what writes
a buffer and what reads it otherwise (x before a route, results after it, two routes that share a scratch).)";

// A device that is lost cannot clear it either, and the command buffer's own message is the better one.
void clear(RouteScratch &scratch) {
    try {
        scratch.reset();
    } catch (const DeviceError &) {
    }
}

}  // namespace

OpenCommands::OpenCommands(std::shared_ptr<std::atomic<int>> count) {
    if (count->fetch_add(1) >= kLimit) {
        count->fetch_sub(1);
        throw std::runtime_error(
            "command_buffer: " + std::to_string(kLimit) +
            " command buffers of this device are not committed; commit or drop one first");
    }
    count_ = std::move(count);
}

void OpenCommands::close() {
    if (count_) count_->fetch_sub(1);
    count_.reset();
}

CommandsObject::CommandsObject(DevicePtr device)
    : device_(std::move(device)), open_(device_->open_command_buffers) {
    MTL::CommandQueue *queue = device_->context()->queue();
    without_gil([&] {  // waits while the queue is full
        AutoreleaseScope pool;
        buffer_ = NS::RetainPtr(queue->commandBuffer());
    });
    if (!buffer_) throw DeviceError("the queue gives no command buffer");
}

CommandsObject::~CommandsObject() {
    if (encoder_) encoder_->endEncoding();
}

void CommandsObject::refuse(const char *call, const char *why) const {
    throw std::runtime_error(std::string(call) + ": " + why);
}

unsigned CommandsObject::begin(bool concurrent) {
    device_->context();  // refuses a forked process
    std::lock_guard lock(mutex_);
    if (committed_) refuse("compute_encoder", "the command buffer is committed");
    if (encoder_) refuse("compute_encoder", "the command buffer has an open encoder; end it first");
    AutoreleaseScope pool;
    encoder_ = NS::RetainPtr(
        buffer_->computeCommandEncoder(concurrent ? MTL::DispatchTypeConcurrent : MTL::DispatchTypeSerial));
    if (!encoder_) throw DeviceError("the command buffer gives no compute encoder");
    return ++tickets_;
}

void CommandsObject::encode(unsigned ticket, std::shared_ptr<RouteScratch> scratch,
                            const std::function<void(MTL::ComputeCommandEncoder *)> &write) {
    device_->context();
    std::lock_guard lock(mutex_);
    if (!encoder_ || ticket != tickets_) refuse("encoder", "it has ended");
    AutoreleaseScope pool;
    const bool is_new =
        scratch && std::find(scratches_.begin(), scratches_.end(), scratch) == scratches_.end();
    if (is_new) scratches_.reserve(scratches_.size() + 1);  // throws before anything is encoded
    try {
        write(encoder_.get());
    } catch (const std::bad_alloc &) {
        incomplete_ = true;
        throw;
    }
    if (is_new) scratches_.push_back(std::move(scratch));
}

void CommandsObject::end(unsigned ticket) {
    device_->context();
    std::lock_guard lock(mutex_);
    if (!encoder_ || ticket != tickets_) refuse("end_encoding", "the encoder has ended already");
    AutoreleaseScope pool;
    encoder_->endEncoding();
    encoder_.reset();
}

void CommandsObject::end_if_open(unsigned ticket) noexcept {
    std::lock_guard lock(mutex_);
    if (!encoder_ || ticket != tickets_) return;
    std::optional<AutoreleaseScope> pool;
    try {
        pool.emplace();
    } catch (const std::bad_alloc &) {  // a pool around this one will do
    }
    encoder_->endEncoding();
    encoder_.reset();
}

void CommandsObject::commit() {
    device_->context();
    std::lock_guard lock(mutex_);
    if (committed_) refuse("commit", "the command buffer is committed already");
    if (encoder_) refuse("commit", "the command buffer has an open encoder; end it first");
    if (incomplete_) refuse("commit", "memory ran out in the middle of a route; encode it into another");
    AutoreleaseScope pool;
    buffer_->commit();
    committed_ = true;
    open_.close();
}

void CommandsObject::wait() {
    device_->context();
    {
        std::lock_guard lock(mutex_);
        if (!committed_) refuse("wait_until_completed", "the command buffer is not committed");
    }
    without_gil([&] {
        AutoreleaseScope pool;
        buffer_->waitUntilCompleted();
        if (buffer_->status() == MTL::CommandBufferStatusError) {
            std::lock_guard lock(mutex_);
            if (!cleared_) {
                for (const auto &scratch : scratches_) clear(*scratch);
            }
            cleared_ = true;
        }
        throw_if_failed(buffer_.get());
    });
}

const char *CommandsObject::status() const {
    device_->context();
    std::lock_guard lock(mutex_);
    if (!committed_) return encoder_ ? "encoding" : "not committed";
    switch (buffer_->status()) {
        case MTL::CommandBufferStatusCompleted:
            return "completed";
        case MTL::CommandBufferStatusError:
            return "error";
        default:
            return "committed";
    }
}

std::optional<double> CommandsObject::gpu_seconds() const {
    device_->context();
    std::lock_guard lock(mutex_);
    if (!committed_ || buffer_->status() != MTL::CommandBufferStatusCompleted) return std::nullopt;
    return buffer_->GPUEndTime() - buffer_->GPUStartTime();
}

void bind_commands(py::module_ &module) {
    using Commands = Self<CommandsObject>;
    using Encoder = Self<EncoderObject>;
    auto commands = shared_class<CommandsObject>(module, "CommandBuffer", kCommandsDoc);
    auto encoder = shared_class<EncoderObject>(module, "ComputeEncoder", kEncoderDoc);
    commands
        .def(
            "compute_encoder",
            [](const Commands &self, const Arg<bool> &concurrent) {
                return std::make_shared<EncoderObject>(self.held, flag("concurrent", concurrent));
            },
            py::arg("concurrent") = false, "A new encoder. RuntimeError if one is open or after commit.")
        .def(
            "commit", [](const Commands &self) { self->commit(); },
            "Hands the commands to the device. RuntimeError if committed before or if an encoder is open.")
        .def(
            "wait_until_completed", [](const Commands &self) { self->wait(); }, kWaitDoc)
        .def_property_readonly(
            "status", [](const Commands &self) { return self->status(); },
            "\"not committed\", \"encoding\" (an encoder is open), \"committed\", \"completed\" or "
            "\"error\".")
        .def_property_readonly(
            "gpu_time", [](const Commands &self) { return self->gpu_seconds(); },
            "Seconds that the device spent, as it says itself; None until completed.")
        .def_property_readonly(
            "device", [](const Commands &self) { return self->device(); }, "Where it was made.")
        .def("__repr__",
             [](const Commands &self) { return std::string("CommandBuffer(") + self->status() + ")"; });

    encoder
        .def_property_readonly(
            "concurrent", [](const Encoder &self) { return self->concurrent; }, "False: serial.")
        .def(
            "end_encoding", [](const Encoder &self) { self->commands->end(self->ticket); },
            "No more commands from this encoder. RuntimeError if it has ended.")
        .def(
            "memory_barrier",
            [](const Encoder &self) {
                self->commands->encode(self->ticket, nullptr, [](MTL::ComputeCommandEncoder *open) {
                    open->memoryBarrier(MTL::BarrierScopeBuffers);
                });
            },
            "Commands after it see what those before it wrote to buffers. RuntimeError if the encoder has "
            "ended.")
        .def("__enter__", [](const Encoder &self) { return self.held; })
        .def(
            "__exit__",
            [](const Encoder &self, const py::object &, const py::object &, const py::object &) {
                self->commands->end_if_open(self->ticket);
            },
            py::arg("kind"), py::arg("error"), py::arg("trace"));

    auto device = py::reinterpret_borrow<py::class_<DeviceObject, DevicePtr>>(module.attr("Device"));
    device.def(
        "command_buffer",
        [](const Self<DeviceObject> &self) { return std::make_shared<CommandsObject>(self.held); },
        "A new, empty command buffer on the device's queue. RuntimeError if 32 are held uncommitted.");
}

}  // namespace qwisp::python
