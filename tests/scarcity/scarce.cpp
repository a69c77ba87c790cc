// Preloaded by tests/test_scarcity.py: memory and threads that fail when they are told to. Only what the extension module
// asks for, by itself or through the C++ library, is counted and refused; the interpreter and numpy are left alone.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
}

namespace {

struct Range {
    uintptr_t low, high;
};
Range watched[8];
int watching = 0;

enum Kind { kMemory, kThreads, kKinds };
std::atomic<long> seen[kKinds];   // requests since scarce_fail
std::atomic<long> first[kKinds];  // the request to refuse, counted from 1; 0: none
std::atomic<bool> later[kKinds];  // and all after it
std::atomic<long> refusals[kKinds];

int add(dl_phdr_info *info, size_t, void *) {
    const char *const name = info->dlpi_name;
    if (!strstr(name, "/_core.") && !strstr(name, "libstdc++")) return 0;
    for (int i = 0; i < info->dlpi_phnum && watching < 8; i++) {
        const auto &part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
        watched[watching++] = {info->dlpi_addr + part.p_vaddr, info->dlpi_addr + part.p_vaddr + part.p_memsz};
    }
    return 0;
}

bool refused(Kind kind, void *caller) {
    if (first[kind] == 0) return false;
    const auto at = reinterpret_cast<uintptr_t>(caller);
    bool ours = false;
    for (int i = 0; i < watching; i++) ours |= watched[i].low <= at && at < watched[i].high;
    if (!ours) return false;
    const long number = ++seen[kind];
    if (number != first[kind] && !(later[kind] && number > first[kind])) return false;
    refusals[kind]++;
    return true;
}

void *no_memory() {
    errno = ENOMEM;
    return nullptr;
}

}  // namespace

#define CALLER __builtin_return_address(0)

extern "C" {

// How many pieces of code are watched; call it once the module is imported.
int scarce_watch() {
    watching = 0;
    dl_iterate_phdr(add, nullptr);
    return watching;
}

// Refuse request number `number` from now on (0: none), and with `rest` all after it.
void scarce_fail(int kind, long number, int rest) {
    first[kind] = 0;
    seen[kind] = 0;
    refusals[kind] = 0;
    later[kind] = rest != 0;
    first[kind] = number;
}

// How many were refused since scarce_fail.
long scarce_refused(int kind) { return refusals[kind]; }

void *malloc(size_t size) { return refused(kMemory, CALLER) ? no_memory() : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
    return refused(kMemory, CALLER) ? no_memory() : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    return refused(kMemory, CALLER) ? no_memory() : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return refused(kMemory, CALLER) ? no_memory() : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (refused(kMemory, CALLER)) return ENOMEM;
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}

void *mmap(void *at, size_t length, int protection, int flags, int file, off_t offset) {
    if (refused(kMemory, CALLER)) return no_memory(), MAP_FAILED;
    return reinterpret_cast<void *>(syscall(SYS_mmap, at, length, protection, flags, file, offset));
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
    using Create = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static const auto next = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    return refused(kThreads, CALLER) ? EAGAIN : next(thread, attributes, work, argument);
}
}
