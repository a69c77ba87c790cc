// What a kernel image (shader text compiled as C++) and the executor know of each other: plain data and one
// interface, so that an image can live in a shared object of its own and be compiled with its own flags.
#pragma once
#include <cstddef>
#include <cstdint>

namespace qwisp::simt {

inline constexpr uint32_t kImageAbi = 2;  // bump with any change in this file
inline constexpr uint32_t kLanes = 32;    // of a simdgroup
inline constexpr uint32_t kMaxSlots = 31;
inline constexpr uint32_t kMaxConstants = 32;

// A range of device or threadgroup memory that a kernel may touch.
struct Region {
    std::byte *base = nullptr;
    size_t fast_length = 0;       // `length`, or 0: then every access goes through Services (memory models)
    size_t length = 0;            // bytes
    std::byte *shadow = nullptr;  // threadgroup memory: 0xff for each byte that was written
    int64_t budget = 0;           // accesses left to the running threadgroup, the guard against runaways
    const char *name = "nullptr";
    uint32_t slot = kMaxSlots;  // of a device argument
};

struct Access {
    Region *region;
    size_t offset;
    uint32_t size, alignment;
};

enum class AtomicOp : uint32_t { load, store, exchange, add, bit_or };

// What the word held before; 0 for a store. Relaxed, as all of MSL's.
inline uint32_t apply(AtomicOp op, uint32_t *word, uint32_t operand) {
    switch (op) {
        case AtomicOp::load:
            return __atomic_load_n(word, __ATOMIC_RELAXED);
        case AtomicOp::exchange:
            return __atomic_exchange_n(word, operand, __ATOMIC_RELAXED);
        case AtomicOp::add:
            return __atomic_fetch_add(word, operand, __ATOMIC_RELAXED);
        case AtomicOp::bit_or:
            return __atomic_fetch_or(word, operand, __ATOMIC_RELAXED);
        case AtomicOp::store:
            break;
    }
    __atomic_store_n(word, operand, __ATOMIC_RELAXED);
    return 0;
}

// What barriers and fences order: bits of MSL's mem_flags.
inline constexpr uint32_t kMemDevice = 1, kMemThreadgroup = 2;

// Everything at which threads wait for one another.
enum class Rendezvous : uint32_t {
    threadgroup_barrier,
    simdgroup_barrier,
    simd_sum_f32,
    simd_sum_u32,
    simd_max_f32,
    simd_max_u32,
    simd_max_i32,
    simd_min_f32,
    simd_min_u32,
    simd_min_i32,
    simd_any,
    simd_all,
    simd_broadcast,
    simd_shuffle,
    simd_shuffle_xor,
};

class Services;

// The running thread as its kernel sees it.
struct ThreadContext {
    Services *services;
    Region *arguments;          // by slot
    const uint32_t *constants;  // bits of the function constants, by index
    uint32_t constants_set;     // one bit an index
    uint32_t group[3], groups[3];
    uint32_t index, lane, simdgroup, simdgroups;
};

// The executor. Calls may switch to other threads; any of them may throw, which ends the thread.
class Services {
  public:
    // The slow paths of the accesses in msl_memory.h: out of bounds, misaligned, uninitialised or observed.
    virtual void load(const Access &access, void *value) = 0;
    virtual void store(const Access &access, const void *value) = 0;
    virtual uint32_t atomic(const Access &access, AtomicOp op, uint32_t operand) = 0;
    // `line` is the line of the shader text, for messages and to tell rendezvous apart.
    virtual void barrier(Rendezvous kind, uint32_t flags, uint32_t line) = 0;
    virtual void fence(uint32_t flags, bool acquire, bool release) = 0;  // of device scope
    virtual uint32_t simd(Rendezvous kind, uint32_t value, uint32_t operand, uint32_t line) = 0;
    virtual Region *threadgroup_array(const char *name, size_t bytes, size_t alignment) = 0;
    [[noreturn]] virtual void undeclared_constant(const char *name, uint32_t index) = 0;

  protected:
    ~Services() = default;
};

// Reflection.
enum class ConstantKind : uint32_t { boolean, uint32, float32 };
struct ConstantInfo {
    const char *name;
    uint32_t index;
    ConstantKind kind;
};
struct ConstantNode {  // a list of all the constants that an image reads, linked before main
    ConstantInfo info;
    const ConstantNode *next;
};
struct ArgumentInfo {
    const char *name;
    uint32_t slot;
    bool writes, is_constant;  // is_constant: the constant address space
    uint32_t element_size, alignment;
    int32_t required_by;  // index of a boolean function constant, or -1
};
inline constexpr uint32_t kEveryConstant = UINT32_MAX;
struct FunctionImage {
    const char *name;
    const ArgumentInfo *arguments;
    uint32_t argument_count;
    const ConstantInfo *constants;
    uint32_t constant_count;  // or kEveryConstant: those of the image
    void (*entry)(ThreadContext &thread);
};
struct KernelImage {
    uint32_t abi;
    bool contracted;  // compiled with floating-point contraction allowed
    const char *text;
    size_t text_length;
    const FunctionImage *functions;
    uint32_t function_count;
    const ConstantNode *const *constants;
    ThreadContext **(*current)();  // where the image looks for the running thread of the calling OS thread
};

}  // namespace qwisp::simt
