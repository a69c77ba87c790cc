// Instances: creation, reference counts, disposal; and the aborts that name what went wrong.
#include <objc/message.h>
#include <objc/runtime.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "internals.h"

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif

#if defined(__has_feature)
#define QWISP_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define QWISP_ASAN 1
#endif
#if QWISP_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace qwisp::objc {

namespace {

// The memory of deallocated objects stays here for a while, so that a message to one is named instead of
// running into whatever lives there next.
constexpr size_t kQuarantined = 1024;
constinit std::array<std::atomic<id>, kQuarantined> quarantine{};
constinit std::atomic<size_t> quarantine_next = 0;

}  // namespace

void die(const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    std::vsnprintf(message, sizeof message, format, args);
    va_end(args);
    std::fprintf(stderr, "qwisp: %s\n", message);
    std::fflush(stderr);
#if __has_include(<execinfo.h>)
    void *frames[24];
    backtrace_symbols_fd(frames, backtrace(frames, 24), 2);
#endif
    std::abort();
}

void die_freed(id object, SEL selector) {
    die("-[%s %s] sent to %p, which was deallocated", object->isa->name, sel_getName(selector),
        static_cast<void *>(object));
}

}  // namespace qwisp::objc

using namespace qwisp::objc;

extern "C" {

id class_createInstance(Class cls, size_t extra_bytes) {
    if (!cls || extra_bytes > UINT32_MAX) return nullptr;
    if (!cls->is_registered.load(std::memory_order_acquire) &&
        !find_method_defining(cls, selector(kDealloc))) {
        die("an instance of %s: the class is not implemented here", cls->name);
    }
    auto *header = static_cast<ObjectHeader *>(std::calloc(1, sizeof(ObjectHeader) + extra_bytes));
    if (!header) return nullptr;
    header->isa = cls;
    header->references.store(1, std::memory_order_relaxed);
    header->payload_size = static_cast<uint32_t>(extra_bytes);
    return reinterpret_cast<id>(header);
}

id object_dispose(id object) {
    if (!object) return nullptr;
    if (object->isa->is_freed_twin) die_freed(object, selector(kDealloc));
    // A stale pointer left in the payload would hide a leak of what it points to.
    std::memset(object_getIndexedIvars(object), 0, header_of(object)->payload_size);
#if QWISP_ASAN
    ASAN_POISON_MEMORY_REGION(object_getIndexedIvars(object), header_of(object)->payload_size);
#endif
    object->isa = object->isa->freed_twin;
    const size_t slot = quarantine_next.fetch_add(1, std::memory_order_relaxed) % kQuarantined;
    std::free(quarantine[slot].exchange(object, std::memory_order_acq_rel));
    return nullptr;
}

Class object_getClass(id object) {
    if (!object) return nullptr;
    if (object->isa->is_freed_twin) die_freed(object, selector(kClass));
    return object->isa;
}

id objc_retain(id object) {
    if (!object || object->isa->is_meta) return object;
    if (object->isa->is_freed_twin) die_freed(object, selector(kRetain));
    std::atomic<uint32_t> &references = header_of(object)->references;
    if (references.load(std::memory_order_relaxed) < kImmortal)
        references.fetch_add(1, std::memory_order_relaxed);
    return object;
}

void objc_release(id object) {
    if (!object || object->isa->is_meta) return;
    if (object->isa->is_freed_twin) die_freed(object, selector(kRelease));
    std::atomic<uint32_t> &references = header_of(object)->references;
    if (references.load(std::memory_order_relaxed) >= kImmortal) return;
    const uint32_t before = references.fetch_sub(1, std::memory_order_acq_rel);
    if (before == 1) {
        send<void>(object, kDealloc);
    } else if (before == 0) {
        die("-[%s release] sent to %p while it is being deallocated", object->isa->name,
            static_cast<void *>(object));
    }
}

}  // extern "C"
