// NSURL: file paths only, as newLibrary(NS::URL*) wants them.
#include <stdexcept>

#include "../objc/define_class.h"
#include "../objc/internals.h"
#include "foundation.h"

namespace qwisp::objc {

namespace {

struct Url {
    std::string path;
};

// "file:///a/b" means /a/b. Percent escapes are not decoded.
std::string path_of_url(const std::string &text) {
    const std::string scheme = "file://";
    if (text.compare(0, scheme.size(), scheme) == 0) return text.substr(scheme.size());
    throw std::invalid_argument("-[NSURL initWithString:]: \"" + text + "\" is not a file:// URL");
}

}  // namespace

void define_nsurl() {
    PayloadClass<Url>("NSURL")
        .class_method("fileURLWithPath:",
                      [](Class cls, id path) {
                          return objc_autorelease(
                              make_instance<Url>(cls, Url{text_of(path, "+[NSURL fileURLWithPath:]")}));
                      })
        .method("initFileURLWithPath:",
                [](id self, id path) {
                    payload<Url>(self).path = text_of(path, "-[NSURL initFileURLWithPath:]");
                    return self;
                })
        .method("initWithString:",
                [](id self, id text) {
                    payload<Url>(self).path = path_of_url(text_of(text, "-[NSURL initWithString:]"));
                    return self;
                })
        .method("fileSystemRepresentation", [](const Url &self) { return self.path.c_str(); })
        .method("copy", [](id self) { return objc_retain(self); })
        .method("description", [](const Url &self) { return make_string("file://" + self.path); })
        .registered();
}

}  // namespace qwisp::objc
