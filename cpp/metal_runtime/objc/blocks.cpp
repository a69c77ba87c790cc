// The blocks runtime: copying of blocks, and of __block variables as clang -fblocks lays them out.
// Layout: https://clang.llvm.org/docs/Block-ABI-Apple.html
#include <Block.h>
#include <objc/message.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "internals.h"

namespace qwisp::objc {

namespace {

enum : int {
    kCountMask = 0xfffe,  // references, in steps of 2
    kNeedsFree = 1 << 24,
    kHasCopyDispose = 1 << 25,
    kIsGlobal = 1 << 28,
};
enum : int { kFieldIsObject = 3, kFieldIsBlock = 7, kFieldIsByref = 8 };

struct HeapDescriptor {
    unsigned long reserved, size;
    void (*copy)(void *, const void *);  // these two only with kHasCopyDispose
    void (*dispose)(const void *);
};
struct BlockObject {
    void *isa;
    std::atomic<int> flags;
    int reserved;
    void (*invoke)();
    const HeapDescriptor *descriptor;
};
struct Byref {  // a __block variable
    void *isa;
    Byref *forwarding;
    std::atomic<int> flags;
    int size;
    void (*keep)(void *, void *);  // these two only with kHasCopyDispose
    void (*destroy)(void *);
};

template <class T>
T *duplicate(const T *source, size_t size) {
    auto *copy = static_cast<T *>(std::malloc(size));
    if (!copy) die("out of memory copying a block of %zu bytes", size);
    std::memcpy(static_cast<void *>(copy), static_cast<const void *>(source), size);
    return copy;
}

template <class T>
void retain(T *thing) {
    thing->flags.fetch_add(2, std::memory_order_relaxed);
}
template <class T>
bool release_is_last(T *thing) {
    return (thing->flags.fetch_sub(2, std::memory_order_acq_rel) & kCountMask) == 2;
}

Byref *copy_byref(Byref *source) {
    Byref *const current = source->forwarding;
    if (current->flags.load(std::memory_order_relaxed) & kNeedsFree) {
        retain(current);
        return current;
    }
    Byref *const copy = duplicate(source, static_cast<size_t>(source->size));
    const int flags = source->flags.load(std::memory_order_relaxed);
    copy->isa = nullptr;
    copy->flags.store(flags | kNeedsFree | 4,
                      std::memory_order_relaxed);  // the block's and the scope's reference
    copy->forwarding = source->forwarding = copy;
    if (flags & kHasCopyDispose) source->keep(copy, source);
    return copy;
}

void release_byref(Byref *variable) {
    Byref *const current = variable->forwarding;
    const int flags = current->flags.load(std::memory_order_relaxed);
    if (!(flags & kNeedsFree) || !release_is_last(current)) return;
    if (flags & kHasCopyDispose) current->destroy(current);
    std::free(current);
}

}  // namespace

}  // namespace qwisp::objc

using namespace qwisp::objc;

extern "C" {

void *_NSConcreteStackBlock[32];
void *_NSConcreteGlobalBlock[32];
static void *heap_block[32];  // Apple's _NSConcreteMallocBlock

void *_Block_copy(const void *pointer) {
    auto *block = static_cast<BlockObject *>(const_cast<void *>(pointer));
    if (!block) return nullptr;
    const int flags = block->flags.load(std::memory_order_relaxed);
    if (flags & kIsGlobal) return block;
    if (flags & kNeedsFree) {
        retain(block);
        return block;
    }
    BlockObject *const copy = duplicate(block, block->descriptor->size);
    copy->isa = heap_block;
    copy->flags.store((flags & ~0xffff) | kNeedsFree | 2, std::memory_order_relaxed);
    if (flags & kHasCopyDispose) {
        try {
            block->descriptor->copy(copy, block);
        } catch (...) {  // a captured object's copy constructor
            std::free(copy);
            throw;
        }
    }
    return copy;
}

void _Block_release(const void *pointer) {
    auto *block = static_cast<BlockObject *>(const_cast<void *>(pointer));
    if (!block) return;
    const int flags = block->flags.load(std::memory_order_relaxed);
    if ((flags & kIsGlobal) || !(flags & kNeedsFree) || !release_is_last(block)) return;
    if (flags & kHasCopyDispose) block->descriptor->dispose(block);
    std::free(block);
}

void _Block_object_assign(void *target, const void *object, const int flags) {
    void *const source = const_cast<void *>(object);
    void *result = source;
    if (flags & kFieldIsByref) {
        result = copy_byref(static_cast<Byref *>(source));
    } else if ((flags & kFieldIsBlock) == kFieldIsBlock) {
        result = _Block_copy(source);
    } else if ((flags & kFieldIsObject) == kFieldIsObject) {
        result = objc_retain(static_cast<id>(source));
    }
    *static_cast<void **>(target) = result;
}

void _Block_object_dispose(const void *object, const int flags) {
    void *const source = const_cast<void *>(object);
    if (flags & kFieldIsByref) {
        release_byref(static_cast<Byref *>(source));
    } else if ((flags & kFieldIsBlock) == kFieldIsBlock) {
        _Block_release(source);
    } else if ((flags & kFieldIsObject) == kFieldIsObject) {
        objc_release(static_cast<id>(source));
    }
}

}  // extern "C"
