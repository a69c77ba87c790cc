// NSDictionary: a list of pairs, since those of a compute host (compiler macros, error information) are
// short.
#include <stdexcept>
#include <vector>

#include "../objc/define_class.h"
#include "../objc/internals.h"
#include "foundation.h"

namespace qwisp::objc {

namespace {

struct Dictionary {
    std::vector<std::pair<Strong, Strong>> entries;  // key, object

    id find(id key) const {
        for (const auto &[known, object] : entries) {
            if (is_equal(known.get(), key)) return object.get();
        }
        return nullptr;
    }
};

// The first of two equal keys counts, as in Foundation.
Dictionary collect(const id *objects, const id *keys, size_t count, const char *method) {
    Dictionary result;
    for (size_t i = 0; i < count; ++i) {
        if (!objects[i] || !keys[i]) {
            throw std::invalid_argument(std::string(method) + ": " + (keys[i] ? "object " : "key ") +
                                        std::to_string(i) + " is nil");
        }
        if (!result.find(keys[i])) result.entries.emplace_back(keys[i], objects[i]);
    }
    return result;
}

id make(Class cls, const id *objects, const id *keys, size_t count, const char *method) {
    return objc_autorelease(make_instance<Dictionary>(cls, collect(objects, keys, count, method)));
}

bool equal(const Dictionary &a, const Dictionary &b) {
    if (a.entries.size() != b.entries.size()) return false;
    for (const auto &[key, object] : a.entries) {
        if (!is_equal(object.get(), b.find(key.get()))) return false;
    }
    return true;
}

id enumerate_keys(const Dictionary &dictionary) {
    std::vector<id> keys;
    for (const auto &entry : dictionary.entries) keys.push_back(entry.first.get());
    return make_enumerator(keys.data(), keys.size());
}

std::string describe(const Dictionary &dictionary) {
    std::string text = "{";
    for (const auto &[key, object] : dictionary.entries) {
        text +=
            (text.size() > 1 ? ", " : "") + description_of(key.get()) + " = " + description_of(object.get());
    }
    return text + "}";
}

}  // namespace

void define_nsdictionary() {
    PayloadClass<Dictionary>("NSDictionary")
        .class_method("dictionary", [](Class cls) -> id { return make(cls, nullptr, nullptr, 0, ""); })
        .class_method("dictionaryWithObject:forKey:",
                      [](Class cls, id object, id key) -> id {
                          return make(cls, &object, &key, 1, "+[NSDictionary dictionaryWithObject:forKey:]");
                      })
        .class_method("dictionaryWithObjects:forKeys:count:",
                      [](Class cls, const id *objects, const id *keys, unsigned long count) -> id {
                          return make(cls, objects, keys, count,
                                      "+[NSDictionary dictionaryWithObjects:forKeys:count:]");
                      })
        .method("initWithObjects:forKeys:count:",
                [](id self, const id *objects, const id *keys, unsigned long count) {
                    payload<Dictionary>(self) =
                        collect(objects, keys, count, "-[NSDictionary initWithObjects:forKeys:count:]");
                    return self;
                })
        .method("count", [](const Dictionary &self) -> unsigned long { return self.entries.size(); })
        .method("objectForKey:", [](const Dictionary &self, id key) { return self.find(key); })
        .method("keyEnumerator", [](const Dictionary &self) { return enumerate_keys(self); })
        .method("copy", [](id self) { return objc_retain(self); })
        .method("isEqual:",
                [](id self, id other) {
                    return other && object_getClass(other) == object_getClass(self) &&
                           equal(payload<Dictionary>(self), payload<Dictionary>(other));
                })
        .method("hash", [](const Dictionary &self) -> unsigned long { return self.entries.size(); })
        .method("description", [](const Dictionary &self) { return make_string(describe(self)); })
        .registered();
}

}  // namespace qwisp::objc
