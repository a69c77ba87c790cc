// What the Foundation classes share. Payloads are private to their files, but for NSString's.
// Misuse that Apple answers with an Objective-C exception throws std::invalid_argument or std::out_of_range
// here.
#pragma once
#include <objc/message.h>
#include <objc/runtime.h>

#include <cstddef>
#include <string>
#include <utility>

namespace qwisp::objc {

struct String {
    std::string utf8;  // always valid UTF-8
};

id new_string(std::string utf8);   // +1
id make_string(std::string utf8);  // autoreleased
bool is_string(id object);
// The text of an NSString; `method` is named in the exception if `object` is nil or something else.
const std::string &text_of(id object, const char *method);
std::string description_of(id object);
bool is_equal(id a, id b);  // both nil, or -isEqual:

id make_enumerator(const id *objects, size_t count);  // autoreleased

// A retained object.
class Strong {
  public:
    Strong(id object = nullptr) : object_(objc_retain(object)) {}
    Strong(const Strong &other) : Strong(other.object_) {}
    Strong(Strong &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Strong &operator=(Strong other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Strong() { objc_release(object_); }
    id get() const { return object_; }

  private:
    id object_;
};

void define_nsobject();  // and NSAutoreleasePool
void define_nsstring();
void define_nsarray();  // and NSEnumerator
void define_nsdictionary();
void define_nsnumber();  // and NSValue
void define_nserror();
void define_nsurl();

}  // namespace qwisp::objc
