// What the bound classes hold. Python objects never own each other: what must live is held here, in C++, so
// any order of destruction is right and the collector has nothing to look for.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "arrays.h"
#include "gil.h"
#include "route/encode.h"
#include "route/router.h"
#include "route/stream_router.h"

namespace qwisp::python {

class DeviceObject {
  public:
    DeviceObject(std::string kind, std::string name, std::string sha256, Fuse fuse,
                 std::shared_ptr<Context> context)
        : kind(std::move(kind)),
          name(std::move(name)),
          sha256(std::move(sha256)),
          fuse(fuse),
          context_(std::move(context)) {}

    const std::string kind, name;
    const std::string sha256;  // of the shader text
    const Fuse fuse;           // where a call leaves it open
    const std::shared_ptr<std::atomic<int>> open_command_buffers = std::make_shared<std::atomic<int>>(0);

    // RuntimeError in a process forked from the one that made the device.
    const std::shared_ptr<Context> &context() const;
    MTL::Device *metal() const { return context()->device(); }

  private:
    std::shared_ptr<Context> context_;
    unsigned generation_ = fork_generation();
};
using DevicePtr = std::shared_ptr<DeviceObject>;

struct BufferObject {
    DevicePtr device;
    Element element;
    Shape shape;
    std::string label;
    BufferPtr memory;

    size_t bytes() const { return byte_count(element, shape); }
};

struct GateObject {
    DevicePtr device;
    std::shared_ptr<Gate> gate;
};

struct ScratchObject {
    DevicePtr device;
    std::shared_ptr<RouteScratch> scratch;
};

// The memory is the caller's Buffer, or a copy that goes to a device when it is first used there.
class BiasObject {
  public:
    BiasObject(std::shared_ptr<BufferObject> resident, float eps) : eps(eps), given_(std::move(resident)) {}
    BiasObject(std::vector<int32_t> resident, float eps) : eps(eps), host_(std::move(resident)) {}

    const float eps;
    // ValueError unless it holds `experts` elements, on this device.
    BufferPtr on_device(const DevicePtr &device, int64_t experts);
    std::span<const int32_t> on_host(int64_t experts) const;  // valid as long as this

  private:
    void check_length(int64_t experts) const;

    std::shared_ptr<BufferObject> given_;
    std::vector<int32_t> host_;
    std::mutex mutex_;
    std::weak_ptr<Context> uploaded_for_;
    BufferPtr uploaded_;
};

struct DiagObject {
    std::shared_ptr<BufferObject> inds, logits;
    DiagPlace place;
};

struct RouterObject {
    std::shared_ptr<GateObject> gate;
    std::shared_ptr<Router> router;
    std::shared_ptr<StreamRouter> on_streams;  // null where the device has none
};

// ValueError unless `buffer` is on `device` and of this element type.
void check_buffer(const char *name, const BufferObject &buffer, const DevicePtr &device, Element wanted);

// None takes `otherwise`; "fuse: 'both', but it must be ..." for anything unknown.
Fuse fuse_value(const Arg<Fuse> &argument, Fuse otherwise);
struct FuseName {
    static constexpr auto text = py::detail::const_name("qwisp_native.settings.Fuse");
};
Named<FuseName> fuse_object(Fuse fuse);

// Binds a class, final, whose objects are always held by a shared_ptr. Where memory is too short to register
// an instance, pybind11 would free its object as if it had been made by new.
template <typename T>
py::class_<T, std::shared_ptr<T>> shared_class(py::module_ &module, const char *name, const char *doc) {
    using Holder = std::shared_ptr<T>;
    py::class_<T, Holder> bound(module, name, py::is_final(), doc);
    py::detail::get_type_info(typeid(T), true)->dealloc = [](py::detail::value_and_holder &instance) {
        const py::error_scope kept;
        if (instance.holder_constructed()) {
            instance.holder<Holder>().~Holder();
            instance.set_holder_constructed(false);
        }
        instance.value_ptr() = nullptr;
    };
    return bound;
}

void bind_device(py::module_ &module);
void bind_device_array(py::module_ &module);
void bind_buffer(py::module_ &module);
void bind_commands(py::module_ &module);
void bind_gate(py::module_ &module);
void bind_operands(py::module_ &module);
void bind_plan(py::module_ &module);
void bind_encode(py::module_ &module);
void bind_router(py::module_ &module);
void bind_record(py::module_ &module);
void bind_timing(py::module_ &module);

template <>
struct ArgName<Fuse> {
    static constexpr auto name = py::detail::const_name("qwisp_native.settings.Fuse | None");
};
// An int32 array, or a Buffer.
struct RemapInput {};
template <>
struct ArgName<RemapInput> {
    static constexpr auto name = ArgName<ArrayInput>::name + py::detail::const_name(" | ") +
                                 py::detail::make_caster<BufferObject>::name +
                                 py::detail::const_name(" | None");
};
struct ResidentInput {};
template <>
struct ArgName<ResidentInput> {
    static constexpr auto name = ArgName<ArrayInput>::name + py::detail::const_name(" | ") +
                                 py::detail::make_caster<BufferObject>::name;
};
struct ShapeInput {};
template <>
struct ArgName<ShapeInput> {
    static constexpr auto name = py::detail::const_name("int | collections.abc.Sequence[int]");
};
struct DtypeInput {};
template <>
struct ArgName<DtypeInput> {
    static constexpr auto name = py::detail::const_name("numpy.typing.DTypeLike");
};

}  // namespace qwisp::python
