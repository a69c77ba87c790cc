// Defines Objective-C classes in C++. An instance holds one C++ object, its payload, after the object header.
//
//   const PayloadClass<BufferState> &buffer_class() {
//       static const auto cls = PayloadClass<BufferState>("QwispBuffer")   // a subclass of NSObject
//           .method("length", [](const BufferState &self) -> NS::UInteger { return self.length; })
//           .method("setLabel:", [](BufferState &self, NS::String *label) { self.label = label; })
//           .method("device", [](id self) -> MTL::Device * { ... })        // the object instead of its
//           payload .class_method("defaultThing", [](Class cls) -> id { ... }) .registered();
//       return cls;
//   }
//   MTL::Buffer *buffer = buffer_class().create<MTL::Buffer>(constructor arguments...);  // owned by the
//   caller (+1) BufferState &state = payload<BufferState>(buffer); BufferState *maybe =
//   buffer_class().find(buffer);  // null if `buffer` is null or of another class
//
// Lambdas capture nothing and may throw: the exception reaches the caller of the metal-cpp method.
// The runtime calls the payload's destructor when the last reference goes ("dealloc"; do not define it).
// If T has a default constructor, +alloc makes an instance, so that MTL::Thing::alloc()->init() works.
// Only Apple's C runtime functions are used: on macOS the same class is registered in the real runtime.
//
// Classes that hosts find by name (MTLCompileOptions, ...) must exist before the first message reaches them,
// which may be before any device is made: define them in qwisp_define_metal_classes(), declared below.
#pragma once
#include <objc/message.h>
#include <objc/runtime.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

// Optional, off macOS only: the runtime calls it once, when a message first reaches a class nobody has
// defined, from any thread, also during static initialisation. Define it beside MTLCreateSystemDefaultDevice:
// the runtime's reference is weak, which alone does not pull an object file out of a static library.
extern "C" void qwisp_define_metal_classes();

namespace qwisp::objc {

// `object` must be an instance of a PayloadClass<T>.
template <class T>
T &payload(const void *object) {
    return *static_cast<T *>(object_getIndexedIvars(static_cast<id>(const_cast<void *>(object))));
}

// An owned (+1) instance of a class whose payload is T, for the class methods of the class itself.
template <class T, class... Args>
id make_instance(Class cls, Args &&...args) {
    const id object = class_createInstance(cls, sizeof(T));
    if (!object) throw std::bad_alloc();
    try {
        new (object_getIndexedIvars(object)) T(std::forward<Args>(args)...);
    } catch (...) {
        object_dispose(object);
        throw;
    }
    return object;
}

namespace detail {

// Type encodings for the real runtime. Metal's structs by value consist of NSUIntegers or are block pointers.
template <class A>
std::string encoding() {
    if constexpr (std::is_void_v<A>)
        return "v";
    else if constexpr (std::is_same_v<A, SEL>)
        return ":";
    else if constexpr (std::is_same_v<A, Class>)
        return "#";
    else if constexpr (std::is_same_v<A, const char *>)
        return "*";
    else if constexpr (std::is_enum_v<A>)
        return encoding<std::underlying_type_t<A>>();
    else if constexpr (std::is_same_v<A, bool>)
        return "B";
    else if constexpr (std::is_same_v<A, float>)
        return "f";
    else if constexpr (std::is_same_v<A, double>)
        return "d";
    else if constexpr (std::is_integral_v<A>) {
        constexpr const char *names[2][4] = {{"C", "S", "I", "Q"}, {"c", "s", "i", "q"}};
        return names[std::is_signed_v<A>][sizeof(A) == 8 ? 3 : sizeof(A) / 2];
    } else if constexpr (std::is_pointer_v<A>) {
        return std::is_class_v<std::remove_pointer_t<A>> ? "@" : "^v";
    } else if constexpr (std::is_class_v<A> && sizeof(A) > sizeof(void *)) {
        static_assert(sizeof(A) % 8 == 0, "a struct that is not made of NSUIntegers needs its own encoding");
        return "{?=" + std::string(sizeof(A) / 8, 'Q') + "}";
    } else {
        return "@?";
    }
}

template <class F, class Signature = decltype(&F::operator())>
struct Method;
template <class F, class R, class Self, class... A>
struct Method<F, R (F::*)(Self, A...) const> {
    static_assert(std::is_empty_v<F>, "a method's lambda must not capture");
    static R call(id self, SEL, A... args) {
        if constexpr (std::is_reference_v<Self>)
            return F{}(payload<std::remove_reference_t<Self>>(self), args...);
        else
            return F{}(reinterpret_cast<Self>(self), args...);  // id or Class
    }
    static std::string types() { return encoding<R>() + "@:" + (std::string() + ... + encoding<A>()); }
};

}  // namespace detail

template <class T>
class PayloadClass {
  public:
    static_assert(alignof(T) <= alignof(void *), "Apple's runtime aligns the payload like a pointer");

    explicit PayloadClass(const char *name)
        : class_(objc_allocateClassPair(reinterpret_cast<Class>(objc_getClass("NSObject")), name, 0)) {
        if (!class_) {
            std::fprintf(stderr, "qwisp: the Objective-C class %s exists already\n", name);
            std::abort();
        }
        method("dealloc", [](id self) {
            payload<T>(self).~T();
            object_dispose(self);
        });
        class_method("alloc", [](Class cls) -> id {
            if constexpr (std::is_default_constructible_v<T>) return make_instance<T>(cls);
            std::fprintf(stderr, "qwisp: +[%s alloc]: only the device makes such objects\n",
                         class_getName(cls));
            std::abort();
        });
    }

    template <class F>
    PayloadClass &method(const char *selector, F) {
        return add(class_, selector, reinterpret_cast<IMP>(&detail::Method<F>::call),
                   detail::Method<F>::types());
    }
    template <class F>
    PayloadClass &class_method(const char *selector, F) {
        return add(object_getClass(reinterpret_cast<id>(class_)), selector,
                   reinterpret_cast<IMP>(&detail::Method<F>::call), detail::Method<F>::types());
    }
    PayloadClass registered() const {
        objc_registerClassPair(class_);
        return *this;
    }

    Class get() const { return class_; }
    template <class Api, class... Args>
    Api *create(Args &&...args) const {
        return reinterpret_cast<Api *>(make_instance<T>(class_, std::forward<Args>(args)...));
    }
    T *find(const void *object) const {
        const id known = static_cast<id>(const_cast<void *>(object));
        return known && object_getClass(known) == class_ ? &payload<T>(object) : nullptr;
    }

  private:
    PayloadClass &add(Class to, const char *selector, IMP imp, const std::string &types) {
        if (!class_addMethod(to, sel_registerName(selector), imp, types.c_str())) {
            std::fprintf(stderr, "qwisp: [%s %s] is defined twice\n", class_getName(class_), selector);
            std::abort();
        }
        return *this;
    }

    Class class_;
};

}  // namespace qwisp::objc
