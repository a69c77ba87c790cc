// Autorelease pools: one stack of objects a thread, and marks in it where pools begin.
#include <objc/message.h>

#include <atomic>
#include <vector>

#include "internals.h"

namespace qwisp::objc {

namespace {

struct Mark {
    uintptr_t serial;  // unique in the process: a pool popped on another thread is noticed
    size_t start;
};

struct PoolStack {
    std::vector<id> objects;
    std::vector<Mark> marks;

    void release_down_to(size_t start) {
        while (objects.size() > start) {  // a dealloc may autorelease more
            const id object = objects.back();
            objects.pop_back();
            objc_release(object);
        }
    }
};

constinit std::atomic<uintptr_t> next_serial = 1;
constinit thread_local PoolStack *stack = nullptr;

// Objects autoreleased outside any pool go when the thread ends; those of later thread-exit destructors leak.
struct DrainAtThreadExit {
    ~DrainAtThreadExit() {
        if (stack) stack->release_down_to(0);
        delete stack;
        stack = nullptr;
    }
};

PoolStack &this_thread() {
    if (!stack) {
        static thread_local DrainAtThreadExit drain;
        (void)drain;
        stack = new PoolStack;
    }
    return *stack;
}

}  // namespace

}  // namespace qwisp::objc

using namespace qwisp::objc;

extern "C" {

id objc_autorelease(id object) {
    if (object && !object->isa->is_meta) {
        if (object->isa->is_freed_twin) die_freed(object, selector(kAutorelease));
        try {
            this_thread().objects.push_back(object);
        } catch (...) {  // nobody else will
            objc_release(object);
            throw;
        }
    }
    return object;
}

void *objc_autoreleasePoolPush(void) {
    PoolStack &pools = this_thread();
    const uintptr_t serial = next_serial.fetch_add(1, std::memory_order_relaxed);
    pools.marks.push_back({serial, pools.objects.size()});
    return reinterpret_cast<void *>(serial);
}

void objc_autoreleasePoolPop(void *pool) {
    PoolStack &pools = this_thread();
    const auto serial = reinterpret_cast<uintptr_t>(pool);
    size_t depth = pools.marks.size();
    while (depth > 0 && pools.marks[depth - 1].serial != serial) --depth;
    if (depth == 0) {
        die("-[NSAutoreleasePool drain] of a pool that this thread does not hold: it ended already with a "
            "pool"
            " around it, or another thread made it");
    }
    pools.release_down_to(pools.marks[depth - 1].start);
    pools.marks.resize(depth - 1);  // pools inside it end with it
}

}  // extern "C"
