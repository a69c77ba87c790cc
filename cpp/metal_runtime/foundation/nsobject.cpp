// NSObject and NSAutoreleasePool.
#include <cstdio>

#include "../objc/define_class.h"
#include "../objc/internals.h"
#include "foundation.h"

namespace qwisp::objc {

namespace {

struct AutoreleasePool {
    void *pool = nullptr;
    ~AutoreleasePool() {
        if (pool) objc_autoreleasePoolPop(pool);
    }
};

template <class F>
void add(Class cls, const char *name, F) {
    using Definition = detail::Method<F>;
    class_addMethod(cls, sel_registerName(name), reinterpret_cast<IMP>(&Definition::call),
                    Definition::types().c_str());
}

bool is_class(id object) { return object->isa->is_meta; }

bool is_kind_of(id object, Class wanted) {
    for (Class cls = object_getClass(object); cls; cls = class_getSuperclass(cls)) {
        if (cls == wanted) return true;
    }
    return false;
}

id describe(id object) {
    const char *const name = class_getName(is_class(object) ? reinterpret_cast<Class>(object) : object->isa);
    if (is_class(object)) return make_string(name);
    char address[32];
    std::snprintf(address, sizeof address, ": %p>", static_cast<void *>(object));
    return make_string(std::string("<") + name + address);
}

}  // namespace

std::string description_of(id object) {
    return object ? text_of(send<id>(object, kDescription), "description") : "(null)";
}

bool is_equal(id a, id b) { return a == b || (a && b && send<bool>(a, kIsEqual, b)); }

void define_foundation() {
    define_nsobject();
    define_nsstring();
    define_nsarray();
    define_nsdictionary();
    define_nsnumber();
    define_nserror();
    define_nsurl();
}

void define_nsobject() {
    const Class root = objc_allocateClassPair(nullptr, "NSObject", 0);
    const Class meta = object_getClass(reinterpret_cast<id>(root));
    add(meta, "alloc", [](Class cls) -> id { return class_createInstance(cls, 0); });
    add(meta, "new",
        [](Class cls) -> id { return send<id>(send<id>(reinterpret_cast<id>(cls), kAlloc), kInit); });
    add(meta, "class", [](Class cls) { return cls; });

    // Class objects inherit these too: the root of the metaclasses is a subclass of NSObject.
    add(root, "init", [](id self) { return self; });
    add(root, "self", [](id self) { return self; });
    add(root, "class", [](id self) { return object_getClass(self); });
    add(root, "superclass", [](id self) {
        return class_getSuperclass(is_class(self) ? reinterpret_cast<Class>(self) : object_getClass(self));
    });
    add(root, "retain", [](id self) { return objc_retain(self); });
    add(root, "release", [](id self) { objc_release(self); });
    add(root, "autorelease", [](id self) { return objc_autorelease(self); });
    add(root, "retainCount", [](id self) -> unsigned long {
        return is_class(self) ? ~0ul : header_of(self)->references.load(std::memory_order_relaxed);
    });
    add(root, "dealloc", [](id self) { object_dispose(self); });
    add(root, "hash", [](id self) -> unsigned long { return reinterpret_cast<uintptr_t>(self) >> 4; });
    add(root, "isEqual:", [](id self, id other) { return self == other; });
    add(root, "isKindOfClass:", [](id self, Class cls) { return is_kind_of(self, cls); });
    add(root, "isMemberOfClass:", [](id self, Class cls) { return object_getClass(self) == cls; });
    add(root, "respondsToSelector:", [](id self, SEL asked) {
        return class_respondsToSelector(object_getClass(self), asked);
    });
    add(root, "methodSignatureForSelector:", [](id, SEL) -> id { return nullptr; });  // nothing is forwarded
    add(root, "description", [](id self) { return describe(self); });
    add(root, "debugDescription", [](id self) { return send<id>(self, kDescription); });
    objc_registerClassPair(root);

    PayloadClass<AutoreleasePool>("NSAutoreleasePool")
        .method("init",
                [](id self) {
                    payload<AutoreleasePool>(self).pool = objc_autoreleasePoolPush();
                    return self;
                })
        .method("addObject:", [](id, id object) { objc_autorelease(object); })
        .method("drain", [](id self) { objc_release(self); })
        .registered();
}

}  // namespace qwisp::objc
