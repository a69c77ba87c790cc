// Selectors, classes and dispatch tables. One lock guards them all; message send (msgsend_*.S) does not take
// it.
#include "internals.h"

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_map>

#include "define_class.h"

extern "C" [[gnu::weak]] void qwisp_define_metal_classes();

namespace qwisp::objc {

constinit const SelectorCell kAlloc{"alloc"}, kAutorelease{"autorelease"}, kClass{"class"},
    kDealloc{"dealloc"}, kDescription{"description"}, kHash{"hash"}, kInit{"init"}, kIsEqual{"isEqual:"},
    kObjectForKey{"objectForKey:"}, kRelease{"release"}, kRetain{"retain"};

constinit std::mutex constants_mutex;

namespace {

struct Registry {
    std::unordered_map<std::string_view, SEL> selectors;
    std::unordered_map<std::string_view, Class> classes;
    std::unordered_map<std::string_view, Protocol *> protocols;
    std::deque<SelectorCell> cells;
    std::vector<const DispatchTable *> retired;  // kept for ever: another thread may be reading one

    Registry() {
        for (const SelectorCell *cell : {&kAlloc, &kAutorelease, &kClass, &kDealloc, &kDescription, &kHash,
                                         &kInit, &kIsEqual, &kObjectForKey, &kRelease, &kRetain}) {
            selectors.emplace(cell->name, selector(*cell));
        }
    }
};

// Every lock here and `constants_mutex`, in the order in which they nest, is held across fork() (see
// lock_all). Constant-initialised, and the registry is made on first use and never destroyed: any static
// initialiser or destructor of any translation unit may use the runtime.
constinit std::mutex registry_mutex, foundation_mutex, metal_mutex;
constinit Registry *shared_registry = nullptr;
constinit std::atomic<bool> foundation_defined = false, metal_defined = false;
constinit thread_local bool defining_metal = false;

Registry &registry() {  // registry_mutex is held
    if (!shared_registry) shared_registry = new Registry;
    return *shared_registry;
}

// A child of fork() has only the forking thread; without this it could inherit a lock held by another.
void lock_all() {
    metal_mutex.lock();
    constants_mutex.lock();
    foundation_mutex.lock();
    registry_mutex.lock();
}
void unlock_all() {
    registry_mutex.unlock();
    foundation_mutex.unlock();
    constants_mutex.unlock();
    metal_mutex.unlock();
}
[[gnu::constructor(101)]] void guard_fork() { pthread_atfork(lock_all, unlock_all, unlock_all); }

const char *keep(const char *name) {
    char *const copy = strdup(name);
    if (!copy) throw std::bad_alloc();
    return copy;
}

DispatchTable *build_table(const std::unordered_map<SEL, IMP> &methods) {
    size_t buckets = 4;
    while (buckets < methods.size() * 2 + 2) buckets *= 2;
    const size_t most = methods.size() * 32 + 4;
    for (;; buckets *= 2) {  // until no two selectors share a bucket, or the table gets silly
        auto *table =
            static_cast<DispatchTable *>(std::calloc(1, offsetof(DispatchTable, buckets) + buckets * 16));
        if (!table) throw std::bad_alloc();
        table->byte_mask = (buckets - 1) * 16;
        size_t clashes = 0;
        for (const auto &[selector, imp] : methods) {
            uint64_t offset = reinterpret_cast<uint64_t>(selector) & table->byte_mask;
            for (; table->buckets[offset / 16].selector; ++clashes) offset = (offset + 16) & table->byte_mask;
            table->buckets[offset / 16] = {selector, imp};
        }
        if (clashes == 0 || buckets * 2 > most) return table;
        std::free(table);
    }
}

void publish(Class cls) {
    std::unordered_map<SEL, IMP> methods;
    for (Class c = cls; c; c = c->superclass) {
        for (const Method &method : c->methods) methods.emplace(method.selector, method.imp);
    }
    if (const DispatchTable *old = cls->table.exchange(build_table(methods), std::memory_order_acq_rel)) {
        registry().retired.push_back(old);
    }
    for (Class subclass : cls->subclasses) publish(subclass);
}

Class new_class(const char *name, Class isa, bool is_meta) {
    auto *cls = new objc_class{};
    cls->name = name;
    cls->isa = isa;
    cls->is_meta = is_meta;
    publish(cls);
    return cls;
}

// metal-cpp looks classes up while static initialisers run, maybe before their definition: it gets an empty
// class under that name, which objc_allocateClassPair fills later.
Class intern_class(const char *name) {
    const auto known = registry().classes.find(name);
    if (known != registry().classes.end()) return known->second;
    const char *const kept = keep(name);
    Class meta = new_class(kept, nullptr, true);
    meta->isa = meta;
    Class cls = new_class(kept, meta, false);
    cls->freed_twin = new_class(kept, meta, false);
    cls->freed_twin->is_freed_twin = true;
    registry().classes.emplace(kept, cls);
    return cls;
}

void ensure_foundation() {
    if (foundation_defined.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(foundation_mutex);
    if (foundation_defined.load(std::memory_order_relaxed)) return;
    define_foundation();
    foundation_defined.store(true, std::memory_order_release);
}

void ensure_metal() {
    if (!&qwisp_define_metal_classes || defining_metal) return;
    if (metal_defined.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(metal_mutex);
    if (metal_defined.load(std::memory_order_relaxed)) return;
    struct Scope {
        Scope() { defining_metal = true; }
        ~Scope() { defining_metal = false; }
    } const scope;
    qwisp_define_metal_classes();
    metal_defined.store(true, std::memory_order_release);
}

}  // namespace

IMP find_method(Class cls, SEL selector) {
    const DispatchTable *const table = cls->table.load(std::memory_order_acquire);
    for (uint64_t offset = reinterpret_cast<uint64_t>(selector) & table->byte_mask;;
         offset = (offset + 16) & table->byte_mask) {
        const Method &method = table->buckets[offset / 16];
        if (method.selector == selector) return method.imp;
        if (!method.selector) return nullptr;
    }
}

IMP find_method_defining(Class cls, SEL selector) {
    if (!cls->is_registered.load(std::memory_order_acquire)) ensure_foundation();
    if (!cls->is_registered.load(std::memory_order_acquire)) ensure_metal();
    return find_method(cls, selector);
}

}  // namespace qwisp::objc

using namespace qwisp::objc;

extern "C" {

// What message send calls when the table has no such selector.
[[gnu::visibility("hidden")]] IMP mtlshim_lookup_miss(id self, SEL selector) {
    if (!selector) {
        die("a null selector was sent to %s %p: a static initialiser used metal-cpp before the translation "
            "unit that"
            " defines NS_PRIVATE_IMPLEMENTATION and MTL_PRIVATE_IMPLEMENTATION was initialised; link that "
            "one first",
            self ? self->isa->name : "nil", static_cast<void *>(self));
    }
    const Class cls = self->isa;
    if (cls->is_freed_twin) die_freed(self, selector);
    if (const IMP imp = find_method_defining(cls, selector)) return imp;
    const char *const name = sel_getName(selector);
    if (!cls->is_registered) {
        die("%c[%s %s]: the class %s is not implemented here", cls->is_meta ? '+' : '-', cls->name, name,
            cls->name);
    }
    die("unrecognized selector %c[%s %s] sent to %p: the class does not implement this method here",
        cls->is_meta ? '+' : '-', cls->name, name, static_cast<void *>(self));
}

SEL sel_registerName(const char *name) {
    const std::lock_guard lock(registry_mutex);
    Registry &all = registry();
    const auto known = all.selectors.find(name);
    if (known != all.selectors.end()) return known->second;
    const SelectorCell &cell = all.cells.emplace_back(SelectorCell{keep(name)});
    all.selectors.emplace(cell.name, selector(cell));
    return selector(cell);
}
const char *sel_getName(SEL selector) {
    return selector ? reinterpret_cast<const SelectorCell *>(selector)->name : "<null selector>";
}

Class objc_lookUpClass(const char *name) {
    const std::lock_guard lock(registry_mutex);
    return intern_class(name);
}
Class objc_getClass(const char *name) { return objc_lookUpClass(name); }

Protocol *objc_getProtocol(const char *name) {
    const std::lock_guard lock(registry_mutex);
    const auto known = registry().protocols.find(name);
    if (known != registry().protocols.end()) return known->second;
    const auto protocol =
        reinterpret_cast<Protocol *>(new ObjectHeader{intern_class("Protocol"), kImmortal, 0});
    return registry().protocols.emplace(keep(name), protocol).first->second;
}

Class objc_allocateClassPair(Class superclass, const char *name, size_t) {
    if (superclass && !superclass->is_registered.load(std::memory_order_acquire)) ensure_foundation();
    const std::lock_guard lock(registry_mutex);
    if (superclass && !superclass->is_registered) {
        die("class %s: its superclass %s is not defined", name, superclass->name);
    }
    const Class cls = intern_class(name);
    if (cls->is_allocated) return nullptr;
    cls->is_allocated = true;
    cls->superclass = superclass;
    cls->isa->superclass =
        superclass ? superclass->isa : cls;  // class methods of the root: its instance methods
    return cls;
}

void objc_registerClassPair(Class cls) {
    const std::lock_guard lock(registry_mutex);
    if (cls->is_registered) die("class %s is registered twice", cls->name);
    for (Class c : {cls, cls->isa}) {
        if (c->superclass) c->superclass->subclasses.push_back(c);
        publish(c);
    }
    for (Class c : {cls, cls->isa}) c->is_registered.store(true, std::memory_order_release);
}

BOOL class_addMethod(Class cls, SEL selector, IMP imp, const char *) {
    const std::lock_guard lock(registry_mutex);
    for (const Method &method : cls->methods) {
        if (method.selector == selector) return NO;
    }
    cls->methods.push_back({selector, imp});
    if (cls->is_registered) publish(cls);
    return YES;
}

IMP class_getMethodImplementation(Class cls, SEL selector) { return find_method_defining(cls, selector); }
BOOL class_respondsToSelector(Class cls, SEL selector) {
    return find_method_defining(cls, selector) != nullptr;
}
Class class_getSuperclass(Class cls) {
    const std::lock_guard lock(registry_mutex);
    return cls ? cls->superclass : nullptr;
}
const char *class_getName(Class cls) { return cls ? cls->name : "nil"; }

}  // extern "C"
