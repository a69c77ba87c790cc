// NSNumber and NSValue.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <variant>
#include <vector>

#include "../objc/define_class.h"
#include "../objc/internals.h"
#include "foundation.h"

namespace qwisp::objc {

namespace {

struct Value {
    std::string type;
    std::vector<char> bytes;
};

// Sizes of the scalar type encodings.
size_t size_of_type(const char *type, const char *method) {
    switch (type ? type[0] : '\0') {
        case 'c':
        case 'C':
        case 'B':
            return 1;
        case 's':
        case 'S':
            return 2;
        case 'i':
        case 'I':
        case 'f':
            return 4;
        case 'l':
        case 'L':
        case 'q':
        case 'Q':
        case 'd':
        case '@':
        case '#':
        case ':':
        case '*':
        case '^':
            return 8;
        default:
            break;
    }
    throw std::invalid_argument(std::string(method) + ": type encoding \"" + (type ? type : "") +
                                "\"; implemented are scalars and pointers");
}

Value value_of(const void *bytes, const char *type, const char *method) {
    const auto *first = static_cast<const char *>(bytes);
    return {type, std::vector<char>(first, first + size_of_type(type, method))};
}

void get_value(void *to, unsigned long size, const void *from, size_t available, const char *method) {
    if (size != available) {
        throw std::invalid_argument(std::string(method) + ": size " + std::to_string(size) +
                                    ", the value has " + std::to_string(available));
    }
    std::memcpy(to, from, size);
}

struct Number {
    char type = 'i';
    std::variant<int64_t, uint64_t, double> value = int64_t{0};

    template <class T>
    static Number of(T v) {
        const char type = detail::encoding<T>()[0];
        if constexpr (std::is_floating_point_v<T>)
            return {type, static_cast<double>(v)};
        else if constexpr (std::is_signed_v<T> || std::is_same_v<T, bool>)
            return {type, static_cast<int64_t>(v)};
        else
            return {type, static_cast<uint64_t>(v)};
    }
    // Integers wrap as in C; a floating-point value outside T gives T's nearest, NaN gives 0.
    template <class T>
    T as() const {
        return std::visit(
            [](auto v) -> T {
                if constexpr (std::is_same_v<T, bool>)
                    return v != 0;
                else if constexpr (std::is_same_v<decltype(v), double> && std::is_integral_v<T>) {
                    if (std::isnan(v)) return 0;
                    if (v <= static_cast<double>(std::numeric_limits<T>::min()))
                        return std::numeric_limits<T>::min();
                    if (v >= static_cast<double>(std::numeric_limits<T>::max()))
                        return std::numeric_limits<T>::max();
                    return static_cast<T>(v);
                } else
                    return static_cast<T>(v);
            },
            value);
    }
    std::string text() const {
        if (const auto *real = std::get_if<double>(&value)) {
            char buffer[40];
            std::snprintf(buffer, sizeof buffer, type == 'f' ? "%.7g" : "%.16g", *real);
            return buffer;
        }
        return std::visit([](auto v) { return std::to_string(v); }, value);
    }
    void copy_to(void *to, unsigned long size) const {
        const auto copy = [&](auto v) { get_value(to, size, &v, sizeof v, "-[NSNumber getValue:size:]"); };
        switch (type) {
            case 'B':
                copy(as<bool>());
                break;
            case 'c':
            case 'C':
                copy(as<int8_t>());
                break;
            case 's':
            case 'S':
                copy(as<int16_t>());
                break;
            case 'i':
            case 'I':
                copy(as<int32_t>());
                break;
            case 'f':
                copy(as<float>());
                break;
            case 'd':
                copy(as<double>());
                break;
            default:
                copy(as<int64_t>());
                break;
        }
    }
};

// -1, 0 or 1 by value, exactly, whatever the types. NaN compares as equal to everything.
long order(const Number &a, const Number &b) {
    return std::visit(
        [](auto x, auto y) -> long {
            if constexpr (std::is_integral_v<decltype(x)> && std::is_integral_v<decltype(y)>) {
                return std::cmp_less(x, y) ? -1 : std::cmp_less(y, x);
            } else {
                const auto left = static_cast<long double>(x), right = static_cast<long double>(y);
                return left < right ? -1 : right < left;
            }
        },
        a.value, b.value);
}

template <class T>
void add_type(PayloadClass<Number> &cls, const char *factory, const char *init, const char *getter) {
    cls.class_method(factory, [](Class c, T v) -> id {
        return objc_autorelease(make_instance<Number>(c, Number::of(v)));
    });
    cls.method(init, [](id self, T v) {
        payload<Number>(self) = Number::of(v);
        return self;
    });
    cls.method(getter, [](const Number &self) { return self.as<T>(); });
}

bool equal_numbers(id self, id other) {
    return other && object_getClass(other) == object_getClass(self) &&
           order(payload<Number>(self), payload<Number>(other)) == 0;
}

void define_number() {
    PayloadClass<Number> cls("NSNumber");
    add_type<char>(cls, "numberWithChar:", "initWithChar:", "charValue");
    add_type<unsigned char>(cls, "numberWithUnsignedChar:", "initWithUnsignedChar:", "unsignedCharValue");
    add_type<short>(cls, "numberWithShort:", "initWithShort:", "shortValue");
    add_type<unsigned short>(cls, "numberWithUnsignedShort:", "initWithUnsignedShort:", "unsignedShortValue");
    add_type<int>(cls, "numberWithInt:", "initWithInt:", "intValue");
    add_type<unsigned>(cls, "numberWithUnsignedInt:", "initWithUnsignedInt:", "unsignedIntValue");
    add_type<long>(cls, "numberWithLong:", "initWithLong:", "longValue");
    add_type<unsigned long>(cls, "numberWithUnsignedLong:", "initWithUnsignedLong:", "unsignedLongValue");
    add_type<long long>(cls, "numberWithLongLong:", "initWithLongLong:", "longLongValue");
    add_type<unsigned long long>(
        cls, "numberWithUnsignedLongLong:", "initWithUnsignedLongLong:", "unsignedLongLongValue");
    add_type<float>(cls, "numberWithFloat:", "initWithFloat:", "floatValue");
    add_type<double>(cls, "numberWithDouble:", "initWithDouble:", "doubleValue");
    add_type<bool>(cls, "numberWithBool:", "initWithBool:", "boolValue");
    cls.method("integerValue", [](const Number &self) { return self.as<long>(); })
        .method("unsignedIntegerValue", [](const Number &self) { return self.as<unsigned long>(); })
        .method("stringValue", [](const Number &self) { return make_string(self.text()); })
        .method("description", [](const Number &self) { return make_string(self.text()); })
        .method("descriptionWithLocale:", [](const Number &self, id) { return make_string(self.text()); })
        .method("objCType",
                [](const Number &self) -> const char * {
                    static constexpr char names[] = "B\0c\0C\0s\0S\0i\0I\0q\0Q\0f\0d";
                    return static_cast<const char *>(std::memchr(names, self.type, sizeof names));
                })
        .method("getValue:size:",
                [](const Number &self, void *to, unsigned long size) { self.copy_to(to, size); })
        .method("compare:",
                [](id self, id other) -> long {
                    if (!other || object_getClass(other) != object_getClass(self)) {
                        throw std::invalid_argument("-[NSNumber compare:]: the argument is not an NSNumber");
                    }
                    return order(payload<Number>(self), payload<Number>(other));
                })
        .method("isEqualToNumber:", [](id self, id other) { return equal_numbers(self, other); })
        .method("isEqual:", [](id self, id other) { return equal_numbers(self, other); })
        .method("hash",
                [](const Number &self) -> unsigned long { return std::hash<double>()(self.as<double>()); })
        .method("copy", [](id self) { return objc_retain(self); })
        .registered();
}

bool equal_values(id self, id other) {
    if (!other || object_getClass(other) != object_getClass(self)) return false;
    const Value &a = payload<Value>(self), &b = payload<Value>(other);
    return a.type == b.type && a.bytes == b.bytes;
}

void define_value() {
    PayloadClass<Value>("NSValue")
        .class_method("valueWithBytes:objCType:",
                      [](Class cls, const void *bytes, const char *type) {
                          return objc_autorelease(make_instance<Value>(
                              cls, value_of(bytes, type, "+[NSValue valueWithBytes:objCType:]")));
                      })
        .class_method("valueWithPointer:",
                      [](Class cls, const void *pointer) {
                          return objc_autorelease(make_instance<Value>(cls, value_of(&pointer, "^v", "")));
                      })
        .method("initWithBytes:objCType:",
                [](id self, const void *bytes, const char *type) {
                    payload<Value>(self) = value_of(bytes, type, "-[NSValue initWithBytes:objCType:]");
                    return self;
                })
        .method("pointerValue",
                [](const Value &self) {
                    void *pointer = nullptr;
                    if (self.bytes.size() == sizeof pointer)
                        std::memcpy(&pointer, self.bytes.data(), sizeof pointer);
                    return pointer;
                })
        .method("objCType", [](const Value &self) { return self.type.c_str(); })
        .method("getValue:size:",
                [](const Value &self, void *to, unsigned long size) {
                    get_value(to, size, self.bytes.data(), self.bytes.size(), "-[NSValue getValue:size:]");
                })
        .method("isEqualToValue:", [](id self, id other) { return equal_values(self, other); })
        .method("isEqual:", [](id self, id other) { return equal_values(self, other); })
        .method("hash",
                [](const Value &self) -> unsigned long { return std::hash<std::string>()(self.type); })
        .method("copy", [](id self) { return objc_retain(self); })
        .registered();
}

}  // namespace

void define_nsnumber() {
    define_number();
    define_value();
}

}  // namespace qwisp::objc
