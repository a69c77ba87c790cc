// NSArray and NSEnumerator.
#include <stdexcept>
#include <vector>

#include "../objc/define_class.h"
#include "../objc/internals.h"
#include "foundation.h"

namespace qwisp::objc {

namespace {

struct Array {
    std::vector<Strong> objects;
};

struct Enumerator {
    std::vector<Strong> objects;
    size_t next = 0;
};

std::vector<Strong> retained(const id *objects, size_t count, const char *method) {
    std::vector<Strong> result;
    result.reserve(count);
    for (size_t i = 0; i < count; ++i) {
        if (!objects[i])
            throw std::invalid_argument(std::string(method) + ": object " + std::to_string(i) + " is nil");
        result.emplace_back(objects[i]);
    }
    return result;
}

id make(Class cls, const id *objects, size_t count, const char *method) {
    return objc_autorelease(make_instance<Array>(cls, Array{retained(objects, count, method)}));
}

bool equal(const std::vector<Strong> &a, const std::vector<Strong> &b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
        if (!is_equal(a[i].get(), b[i].get())) return false;
    }
    return true;
}

std::string describe(const Array &array) {
    std::string text = "(";
    for (const Strong &object : array.objects)
        text += (text.size() > 1 ? ", " : "") + description_of(object.get());
    return text + ")";
}

void define_array() {
    PayloadClass<Array>("NSArray")
        .class_method("array", [](Class cls) -> id { return make(cls, nullptr, 0, ""); })
        .class_method(
            "arrayWithObject:",
            [](Class cls, id object) -> id { return make(cls, &object, 1, "+[NSArray arrayWithObject:]"); })
        .class_method("arrayWithObjects:count:",
                      [](Class cls, const id *objects, unsigned long count) -> id {
                          return make(cls, objects, count, "+[NSArray arrayWithObjects:count:]");
                      })
        .method("initWithObjects:count:",
                [](id self, const id *objects, unsigned long count) {
                    payload<Array>(self).objects =
                        retained(objects, count, "-[NSArray initWithObjects:count:]");
                    return self;
                })
        .method("count", [](const Array &self) -> unsigned long { return self.objects.size(); })
        .method("objectAtIndex:",
                [](const Array &self, unsigned long index) -> id {
                    if (index < self.objects.size()) return self.objects[index].get();
                    throw std::out_of_range("-[NSArray objectAtIndex:]: index " + std::to_string(index) +
                                            " of " + std::to_string(self.objects.size()));
                })
        .method("objectEnumerator",
                [](const Array &self) {
                    return objc_autorelease(
                        make_instance<Enumerator>(objc_getClass("NSEnumerator"), Enumerator{self.objects}));
                })
        .method("copy", [](id self) { return objc_retain(self); })
        .method("isEqual:",
                [](id self, id other) {
                    return other && object_getClass(other) == object_getClass(self) &&
                           equal(payload<Array>(self).objects, payload<Array>(other).objects);
                })
        .method("hash", [](const Array &self) -> unsigned long { return self.objects.size(); })
        .method("description", [](const Array &self) { return make_string(describe(self)); })
        .registered();
}

void define_enumerator() {
    PayloadClass<Enumerator>("NSEnumerator")
        .method("nextObject",
                [](Enumerator &self) -> id {
                    return self.next < self.objects.size() ? self.objects[self.next++].get() : nullptr;
                })
        .method("allObjects",
                [](Enumerator &self) {
                    const auto first = self.objects.begin() + static_cast<ptrdiff_t>(self.next);
                    const std::vector<Strong> rest(first, self.objects.end());
                    self.next = self.objects.size();
                    return objc_autorelease(make_instance<Array>(objc_getClass("NSArray"), Array{rest}));
                })
        .registered();
}

}  // namespace

id make_enumerator(const id *objects, size_t count) {
    return objc_autorelease(make_instance<Enumerator>(objc_getClass("NSEnumerator"),
                                                      Enumerator{retained(objects, count, "NSEnumerator")}));
}

void define_nsarray() {
    define_array();
    define_enumerator();
}

}  // namespace qwisp::objc
