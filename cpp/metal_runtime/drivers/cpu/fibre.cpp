#include "fibre.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

// ThreadSanitizer is not told of fibres: all of a threadgroup's run on one OS thread, so that none of its
// races can be between them, and its own fibres turn into false alarms beyond some 250 of them.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QWISP_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define QWISP_ASAN 1
#endif

#if defined(QWISP_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void qwisp_fibre_switch(void **from, void *to);
extern "C" void qwisp_fibre_start();

namespace qwisp::simt {

namespace {

#if defined(QWISP_ASAN) || !defined(__OPTIMIZE__)  // frames are larger there
constexpr size_t kStackSize = 256 * 1024;
#else
constexpr size_t kStackSize = 64 * 1024;
#endif
constexpr const char *kNoStack = "cannot map a stack for a thread of the threadgroup";
constexpr size_t kColourStep = 320, kColours = 12;

size_t page_size() {
    static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

}  // namespace

Fibre::Fibre(void (*entry)(void *), void *argument, size_t colour) {
    const size_t total = kStackSize + page_size();
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#if defined(MAP_NORESERVE)
    flags |= MAP_NORESERVE;
#endif
    void *const mapping = mmap(nullptr, total, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (mapping == MAP_FAILED) throw std::system_error(errno, std::generic_category(), kNoStack);
    if (mprotect(mapping, page_size(), PROT_NONE) != 0) {
        const int error = errno;
        munmap(mapping, total);
        throw std::system_error(error, std::generic_category(), kNoStack);
    }
    mapping_ = mapping;
    stack_bottom_ = static_cast<char *>(mapping) + page_size();
    stack_size_ = kStackSize;

    // The frame that qwisp_fibre_switch pops: see the order of its saves.
    char *const top = static_cast<char *>(mapping) + total - colour % kColours * kColourStep;
#if defined(__x86_64__)
    uintptr_t *frame = reinterpret_cast<uintptr_t *>(top) - 9;  // the call needs an aligned stack
    frame[3] = reinterpret_cast<uintptr_t>(argument);           // r12
    frame[2] = reinterpret_cast<uintptr_t>(entry);              // r13
    frame[6] = reinterpret_cast<uintptr_t>(&qwisp_fibre_start);
#else
    uintptr_t *frame = reinterpret_cast<uintptr_t *>(top) - 20;
    frame[0] = reinterpret_cast<uintptr_t>(argument);             // x19
    frame[1] = reinterpret_cast<uintptr_t>(entry);                // x20
    frame[11] = reinterpret_cast<uintptr_t>(&qwisp_fibre_start);  // x30
#endif
    stack_pointer_ = frame;
}

Fibre::~Fibre() {
    if (mapping_ == nullptr) return;
#if defined(QWISP_ASAN)
    __asan_unpoison_memory_region(stack_bottom_, stack_size_);  // the next owner of these pages
#endif
    munmap(mapping_, kStackSize + page_size());
}

void Fibre::switch_to(Fibre &to) {
    to.previous_ = this;
#if defined(QWISP_ASAN)
    __sanitizer_start_switch_fiber(&fake_stack_, to.stack_bottom_, to.stack_size_);
#endif
    qwisp_fibre_switch(&stack_pointer_, to.stack_pointer_);
    arrived();
}

void Fibre::started() { arrived(); }

void Fibre::arrived() {
#if defined(QWISP_ASAN)
    // Also tells the bounds of the stack that was left: nobody else knows those of an OS thread.
    __sanitizer_finish_switch_fiber(fake_stack_, &previous_->stack_bottom_, &previous_->stack_size_);
#endif
}

}  // namespace qwisp::simt
