// NSString: UTF-8 inside, UTF-16 units outside where Foundation counts in them. Encodings: ASCII and UTF-8.
#include <Foundation/NSRange.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "../objc/define_class.h"
#include "../objc/internals.h"
#include "foundation.h"

namespace qwisp::objc {

namespace {

enum : unsigned long { kAscii = 1, kUtf8 = 4 };  // NSStringEncoding
enum : unsigned long {
    kIgnoreCase = 1,
    kLiteral = 2,
    kBackwards = 4,
    kAnchored = 8
};  // NSStringCompareOptions
constexpr unsigned long kNotFound = INTPTR_MAX;

// Set once, before any string exists.
constinit std::atomic<Class> string_class = nullptr;

constexpr char32_t kInvalid = 0xffffffff;

// The code point at `at`, which moves past it.
char32_t next_code_point(std::string_view text, size_t &at) {
    const auto first = static_cast<unsigned char>(text[at++]);
    if (first < 0x80) return first;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4) return kInvalid;
    char32_t point = first & (0x3f >> more);
    for (int i = 0; i < more; ++i) {
        if (at == text.size() || (text[at] & 0xc0) != 0x80) return kInvalid;
        point = point << 6 | (text[at++] & 0x3f);
    }
    constexpr char32_t least[] = {0, 0x80, 0x800, 0x10000};
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    return point < least[more] || point > 0x10ffff || surrogate ? kInvalid : point;
}

bool is_valid(std::string_view bytes, unsigned long encoding) {
    if (encoding == kAscii)
        return std::all_of(bytes.begin(), bytes.end(), [](char c) { return (c & 0x80) == 0; });
    if (encoding != kUtf8) return false;
    for (size_t at = 0; at < bytes.size();) {
        if (next_code_point(bytes, at) == kInvalid) return false;
    }
    return true;
}

std::u16string utf16(std::string_view text) {
    std::u16string units;
    for (size_t at = 0; at < text.size();) {
        const char32_t point = next_code_point(text, at);
        if (point < 0x10000) {
            units.push_back(static_cast<char16_t>(point));
        } else {
            units.push_back(static_cast<char16_t>(0xd7c0 + (point >> 10)));
            units.push_back(static_cast<char16_t>(0xdc00 + (point & 0x3ff)));
        }
    }
    return units;
}

template <class Text>
Text ascii_folded(Text text) {
    for (auto &unit : text) unit += unit >= 'A' && unit <= 'Z' ? 'a' - 'A' : 0;
    return text;
}

NS::Range find(const std::string &in, const std::string &what, unsigned long options) {
    if (options & ~(kIgnoreCase | kLiteral | kBackwards | kAnchored)) {
        throw std::invalid_argument(
            "-[NSString rangeOfString:options:]: options " + std::to_string(options) +
            "; implemented are case-insensitive (ASCII), literal, backwards, anchored");
    }
    std::u16string text = utf16(in), wanted = utf16(what);
    if (options & kIgnoreCase) text = ascii_folded(text), wanted = ascii_folded(wanted);
    if (wanted.empty() || wanted.size() > text.size()) return NS::Range(kNotFound, 0);
    size_t at = options & kBackwards ? text.rfind(wanted) : text.find(wanted);
    if (options & kAnchored) {
        const size_t anchor = options & kBackwards ? text.size() - wanted.size() : 0;
        at = text.compare(anchor, wanted.size(), wanted) == 0 ? anchor : std::u16string::npos;
    }
    return at == std::u16string::npos ? NS::Range(kNotFound, 0) : NS::Range(at, wanted.size());
}

// -init... methods: nil, as from Apple's, if the bytes are not valid in that encoding.
id initialise(id self, std::string_view bytes, unsigned long encoding) {
    if (!is_valid(bytes, encoding)) {
        objc_release(self);
        return nullptr;
    }
    payload<String>(self).utf8.assign(bytes);
    return self;
}

id factory(Class cls, const char *method, const char *bytes, unsigned long encoding) {
    if (!bytes) throw std::invalid_argument(std::string(method) + ": the argument is null");
    return objc_autorelease(initialise(make_instance<String>(cls), bytes, encoding));
}

long order(const std::string &a, const std::string &b) {
    const std::u16string left = utf16(a), right = utf16(b);
    return left == right ? 0 : left < right ? -1 : 1;
}

void add_constructors(PayloadClass<String> &cls) {
    cls.class_method("string", [](Class c) -> id { return objc_autorelease(make_instance<String>(c)); })
        .class_method(
            "stringWithString:",
            [](Class, id text) -> id { return make_string(text_of(text, "+[NSString stringWithString:]")); })
        .class_method("stringWithUTF8String:",
                      [](Class c, const char *text) -> id {
                          return factory(c, "+[NSString stringWithUTF8String:]", text, kUtf8);
                      })
        .class_method("stringWithCString:encoding:",
                      [](Class c, const char *text, unsigned long encoding) -> id {
                          return factory(c, "+[NSString stringWithCString:encoding:]", text, encoding);
                      })
        .method("initWithString:",
                [](id self, id text) -> id {
                    return initialise(self, text_of(text, "-[NSString initWithString:]"), kUtf8);
                })
        .method("initWithUTF8String:",
                [](id self, const char *text) -> id {
                    if (!text)
                        throw std::invalid_argument("-[NSString initWithUTF8String:]: the argument is null");
                    return initialise(self, text, kUtf8);
                })
        .method(
            "initWithCString:encoding:",
            [](id self, const char *text, unsigned long encoding) -> id {
                if (!text)
                    throw std::invalid_argument("-[NSString initWithCString:encoding:]: the text is null");
                return initialise(self, text, encoding);
            })
        .method("initWithBytes:length:encoding:",
                [](id self, const char *bytes, unsigned long length, unsigned long encoding) -> id {
                    return initialise(self, {bytes, length}, encoding);
                })
        .method("initWithBytesNoCopy:length:encoding:freeWhenDone:",
                [](id self, void *bytes, unsigned long length, unsigned long encoding,
                   bool free_when_done) -> id {
                    const id result = initialise(self, {static_cast<const char *>(bytes), length}, encoding);
                    if (free_when_done && result) std::free(bytes);
                    return result;
                });
}

void add_readers(PayloadClass<String> &cls) {
    cls.method("UTF8String", [](const String &self) { return self.utf8.c_str(); })
        .method("fileSystemRepresentation", [](const String &self) { return self.utf8.c_str(); })
        .method("cStringUsingEncoding:",
                [](const String &self, unsigned long encoding) -> const char * {
                    return is_valid(self.utf8, encoding) ? self.utf8.c_str() : nullptr;
                })
        .method("lengthOfBytesUsingEncoding:",
                [](const String &self, unsigned long encoding) -> unsigned long {
                    return is_valid(self.utf8, encoding) ? self.utf8.size() : 0;
                })
        .method("maximumLengthOfBytesUsingEncoding:",
                [](const String &self, unsigned long encoding) -> unsigned long {
                    const size_t units = utf16(self.utf8).size();
                    return encoding == kUtf8 ? 3 * units : encoding == kAscii ? units : 0;
                })
        .method("length", [](const String &self) -> unsigned long { return utf16(self.utf8).size(); })
        .method("characterAtIndex:", [](const String &self, unsigned long index) -> unsigned short {
            const std::u16string units = utf16(self.utf8);
            if (index < units.size()) return units[index];
            throw std::out_of_range("-[NSString characterAtIndex:]: index " + std::to_string(index) + " of " +
                                    std::to_string(units.size()));
        });
}

void add_comparisons(PayloadClass<String> &cls) {
    cls.method("isEqualToString:",
               [](const String &self, id other) {
                   return is_string(other) && self.utf8 == payload<String>(other).utf8;
               })
        .method("isEqual:",
                [](const String &self, id other) {
                    return is_string(other) && self.utf8 == payload<String>(other).utf8;
                })
        .method("hash",
                [](const String &self) -> unsigned long { return std::hash<std::string>()(self.utf8); })
        .method("compare:", [](const String &self,
                               id other) { return order(self.utf8, text_of(other, "-[NSString compare:]")); })
        .method("caseInsensitiveCompare:",
                [](const String &self, id other) {
                    const std::string &text = text_of(other, "-[NSString caseInsensitiveCompare:]");
                    return order(ascii_folded(self.utf8), ascii_folded(text));
                })
        .method("rangeOfString:options:", [](const String &self, id wanted, unsigned long options) {
            return find(self.utf8, text_of(wanted, "-[NSString rangeOfString:options:]"), options);
        });
}

}  // namespace

id new_string(std::string utf8) {
    return make_instance<String>(objc_getClass("NSString"), String{std::move(utf8)});
}
id make_string(std::string utf8) { return objc_autorelease(new_string(std::move(utf8))); }
bool is_string(id object) {
    return object && object_getClass(object) == string_class.load(std::memory_order_relaxed);
}
const std::string &text_of(id object, const char *method) {
    if (is_string(object)) return payload<String>(object).utf8;
    throw std::invalid_argument(
        std::string(method) + ": the argument is " +
        (object ? std::string("a ") + class_getName(object_getClass(object)) : "nil") + ", not an NSString");
}

void define_nsstring() {
    PayloadClass<String> cls("NSString");
    string_class.store(cls.get(), std::memory_order_relaxed);
    add_constructors(cls);
    add_readers(cls);
    add_comparisons(cls);
    cls.method("copy", [](id self) { return objc_retain(self); })
        .method("description", [](id self) { return self; })
        .method("stringByAppendingString:",
                [](const String &self, id more) {
                    return make_string(self.utf8 + text_of(more, "-[NSString stringByAppendingString:]"));
                })
        .registered();
}

}  // namespace qwisp::objc
