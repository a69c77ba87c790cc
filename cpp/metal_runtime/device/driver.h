// What a driver does for the Metal device classes: one implementation for each kind of hardware.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "metal_runtime/device/label.h"

namespace qwisp::metal {

inline constexpr size_t kMaxBuffers = 31;  // Metal feature set tables: buffers a kernel may bind

using Size3 = std::array<uint64_t, 3>;

// Reflection of a kernel function, as MTLFunction and MTLComputePipelineReflection need it.
enum class ConstantType { boolean, uint32, float32 };
inline const char *type_name(ConstantType type) {
    switch (type) {
        case ConstantType::boolean:
            return "bool";
        case ConstantType::uint32:
            return "uint";
        case ConstantType::float32:
            break;
    }
    return "float";
}
struct FunctionConstant {
    std::string name;
    uint32_t index;
    ConstantType type;
};
struct Argument {
    std::string name;
    uint32_t index;
    bool reads, writes;              // hazard tracking; a constant argument only reads
    bool is_constant;                // constant address space: setBytes is usual, needs element_size bytes
    size_t element_size, alignment;  // alignment: a power of two
    std::optional<uint32_t> required_by;  // present only if this boolean function constant is true
};
struct FunctionInfo {
    std::string name;
    std::vector<Argument> arguments;
    std::vector<FunctionConstant> constants;  // every one needs a value before there can be a Kernel
};
using ConstantValues = std::map<uint32_t, std::variant<bool, uint32_t, float>>;

// Memory behind an MTL::Buffer. contents() is null for private storage that the host cannot see.
class Memory {
  public:
    virtual ~Memory() = default;
    virtual void *contents() = 0;
    virtual uint64_t gpu_address() = 0;

    Label label;  // the buffer's, for messages
};
enum class Storage { shared, private_ };

// A function with its constants fixed: what an MTL::ComputePipelineState holds.
class Kernel {
  public:
    virtual ~Kernel() = default;
    virtual const FunctionInfo &info() const = 0;
    virtual size_t max_threads() const = 0;
    virtual size_t threadgroup_memory() const = 0;
};

class Module {
  public:
    virtual ~Module() = default;
    virtual const std::vector<FunctionInfo> &functions() const = 0;
    // `constants` holds a value of the right type for each constant of the function.
    virtual std::unique_ptr<Kernel> specialise(std::string_view name, const ConstantValues &constants,
                                               std::string *error) = 0;
};

struct Binding {
    Memory *memory = nullptr;       // null: bytes (setBytes) or unbound
    const void *bytes = nullptr;    // owned by the command buffer
    size_t offset = 0, length = 0;  // length counts from offset to the end of the buffer

    std::string label() const { return memory ? memory->label.text() : std::string(); }  // for messages
};
struct Dispatch {
    Kernel *kernel;
    // Slots 0 to the last one that the kernel declares. What its arguments need is bound, aligned and long
    // enough for one element.
    std::span<const Binding> bindings;
    Size3 groups, threads;
    Size3 grid;  // threads in all; less than groups * threads only if Limits::nonuniform_threadgroups
    // Neighbouring dispatches of one phase come from one concurrent encoder with no barrier between them:
    // they may overlap or change places.
    uint32_t phase = 0;
};
struct Copy {
    Memory *from;
    size_t from_offset;
    Memory *to;
    size_t to_offset, length;
};
struct Fill {
    Memory *to;
    size_t offset, length;
    uint8_t value;
};
using Command =
    std::variant<Dispatch, Copy, Fill>;  // in order; a driver may overlap only what it can prove independent

struct Limits {
    size_t max_threads_per_threadgroup, max_threadgroup_memory, max_buffer_length, simd_width;
    bool nonuniform_threadgroups = false;  // runs grids that are no multiple of the threadgroup
    size_t working_set = 0;                // bytes that may well be in use at a time; 0: max_buffer_length
    bool unified_memory = true;            // false: shared memory is far from the device, private memory near
};

class Streams;  // streams.h
// Commands on their way to the device or through it.
class Flight {
  public:
    virtual ~Flight() = default;
    // Waits for their end and returns an empty string or the fault's message; `seconds` as for run_timed().
    // Once.
    virtual std::string finish(double *seconds) = 0;
};
// What is started on a line runs in the order of the calls, each after the end of the one before.
class Line {
  public:
    virtual ~Line() = default;
    // By one thread at a time, also while others wait in finish(). The commands, what they name and the line
    // outlive the flight. What throws has started nothing.
    virtual std::unique_ptr<Flight> start(const std::vector<Command> &commands) = 0;
};

// All calls may come from several threads at once. Queues run their command buffers on threads of their own,
// which may still be running while the process exits: a driver must not depend on anything that exit
// destroys.
class Driver {
  public:
    virtual ~Driver() = default;
    virtual std::string_view name() const = 0;  // "cpu"
    virtual std::string_view device_name() const = 0;
    virtual Limits limits() const = 0;
    // Zero-filled; null when the memory cannot be had.
    virtual std::unique_ptr<Memory> allocate(size_t length, Storage storage) = 0;
    virtual std::unique_ptr<Memory> wrap(void *contents, size_t length) = 0;
    // `macros` are the preprocessor macros of MTL::CompileOptions.
    virtual std::unique_ptr<Module> compile(std::string_view text,
                                            const std::map<std::string, std::string> &macros,
                                            std::string *error) = 0;
    // Runs the commands in order and returns an empty string, or the fault's message. Never throws.
    virtual std::string run(const std::vector<Command> &commands) = 0;
    // The same. A driver that has a clock of the device's own puts the time that the commands took into
    // `seconds`, and leaves it alone otherwise.
    virtual std::string run_timed(const std::vector<Command> &commands, double *) { return run(commands); }

    // For a device that works while the host does something else: a queue starts its command buffers on a
    // line of its own, before those in front have ended. Null: run_timed() it is.
    virtual std::unique_ptr<Line> open_line() { return nullptr; }

    // Order of threads and threadgroups: shuffled by this seed, or the natural one. Drivers may ignore it.
    virtual std::optional<uint64_t> shuffle_seed() const { return std::nullopt; }
    virtual void set_shuffle_seed(std::optional<uint64_t>) {}

    // Null: this hardware has no streams.
    virtual Streams *streams() { return nullptr; }

    // Which implementation of the kernels runs, of those that kernel_names() lists, best first. Empty: no
    // choice.
    virtual std::string_view kernels() const { return {}; }
    virtual bool set_kernels(std::string_view) { return false; }
    virtual std::vector<std::string_view> kernel_names() const { return {}; }
    // Host threads that run them, process-wide; 0 chooses by itself.
    virtual uint32_t threads() const { return 1; }
    virtual void set_threads(uint32_t) {}
    // In the child of a fork, before anything else there: calls of run() that were in progress are gone.
    virtual void after_fork_in_child() {}
};

}  // namespace qwisp::metal
