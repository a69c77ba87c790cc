// Inside of the Objective-C runtime: layouts that the assembly knows, and what its source files share.
#pragma once
#include <objc/message.h>
#include <objc/runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace qwisp::objc {

// A selector is the address of its cell. Cells are 16 bytes apart, so the address is also the hash.
struct alignas(16) SelectorCell {
    const char *name;
};

struct Method {
    SEL selector;
    IMP imp;
};

// Open-addressing table of all methods of a class, inherited ones included. Immutable once published, so that
// message send takes no lock.
struct DispatchTable {
    uint64_t byte_mask;  // (number of buckets - 1) * 16
    uint64_t padding;
    Method buckets[1];  // a null selector marks an empty bucket
};
static_assert(offsetof(DispatchTable, buckets) == 16 && sizeof(Method) == 16, "msgsend_*.S");

struct ObjectHeader {
    Class isa;
    std::atomic<uint32_t> references;
    uint32_t payload_size;
};
static_assert(sizeof(ObjectHeader) == 16, "object_getIndexedIvars");

// Counts from here on never change: constant strings.
inline constexpr uint32_t kImmortal = 1u << 31;

inline ObjectHeader *header_of(id object) { return reinterpret_cast<ObjectHeader *>(object); }

// Implementation in `cls`, its own or inherited, or null. No lock.
IMP find_method(Class cls, SEL selector);
// The same, but lets the classes of Foundation and Metal be defined first if nobody has defined `cls`.
IMP find_method_defining(Class cls, SEL selector);

// The names of selectors that the runtime itself sends.
extern const SelectorCell kAlloc, kAutorelease, kClass, kDealloc, kDescription, kHash, kInit, kIsEqual,
    kObjectForKey, kRelease, kRetain;
inline SEL selector(const SelectorCell &cell) {
    return reinterpret_cast<SEL>(const_cast<SelectorCell *>(&cell));
}

template <class R, class... A>
R send(id object, const SelectorCell &cell, A... args) {
    return reinterpret_cast<R (*)(id, SEL, A...)>(&objc_msgSend)(object, selector(cell), args...);
}

// Prints "qwisp: <message>" and a backtrace to stderr, then aborts.
[[noreturn, gnu::format(printf, 1, 2)]] void die(const char *format, ...);
[[noreturn]] void die_freed(id object, SEL selector);

extern std::mutex constants_mutex;  // foundation/constants.cpp

// Adds NSObject, NSString and the rest of foundation/, by the public functions above.
void define_foundation();

}  // namespace qwisp::objc

struct objc_class {  // the assembly knows the first three members
    Class isa;
    Class superclass;
    std::atomic<const qwisp::objc::DispatchTable *> table;
    const char *name;
    bool is_meta, is_freed_twin;
    bool is_allocated;                // objc_allocateClassPair has seen it
    std::atomic<bool> is_registered;  // its table holds its methods
    Class freed_twin;                 // what the isa of a deallocated instance points to
    std::vector<qwisp::objc::Method> methods;
    std::vector<Class> subclasses;
};
static_assert(offsetof(objc_class, superclass) == 8 && offsetof(objc_class, table) == 16, "msgsend_*.S");
