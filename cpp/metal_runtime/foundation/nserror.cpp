// NSError.
#include <CoreFoundation/CoreFoundation.h>

#include "../objc/define_class.h"
#include "../objc/internals.h"
#include "foundation.h"

namespace qwisp::objc {

namespace {

struct Error {
    Strong domain;
    long code = 0;
    Strong info;
};

id user_info(const Error &error, const char *key) {
    static_assert(sizeof(CFStringRef) == sizeof(id));
    const id key_string =
        reinterpret_cast<id>(const_cast<struct __CFString *>(__CFStringMakeConstantString(key)));
    return send<id>(error.info.get(), kObjectForKey, key_string);
}

id localized_description(const Error &error) {
    if (const id text = user_info(error, "NSLocalizedDescription")) return text;
    return make_string("The operation couldn\u2019t be completed. (" + description_of(error.domain.get()) +
                       " error " + std::to_string(error.code) + ".)");
}

std::string describe(const Error &error) {
    return "Error Domain=" + description_of(error.domain.get()) + " Code=" + std::to_string(error.code) +
           " \"" + description_of(localized_description(error)) + "\"";
}

}  // namespace

void define_nserror() {
    PayloadClass<Error>("NSError")
        .class_method("errorWithDomain:code:userInfo:",
                      [](Class cls, id domain, long code, id info) {
                          return objc_autorelease(make_instance<Error>(cls, Error{domain, code, info}));
                      })
        .method("initWithDomain:code:userInfo:",
                [](id self, id domain, long code, id info) {
                    payload<Error>(self) = Error{domain, code, info};
                    return self;
                })
        .method("code", [](const Error &self) { return self.code; })
        .method("domain", [](const Error &self) { return self.domain.get(); })
        .method("userInfo", [](const Error &self) { return self.info.get(); })
        .method("localizedDescription", [](const Error &self) { return localized_description(self); })
        .method("localizedFailureReason",
                [](const Error &self) { return user_info(self, "NSLocalizedFailureReason"); })
        .method("localizedRecoverySuggestion",
                [](const Error &self) { return user_info(self, "NSLocalizedRecoverySuggestion"); })
        .method("localizedRecoveryOptions",
                [](const Error &self) { return user_info(self, "NSLocalizedRecoveryOptions"); })
        .method("copy", [](id self) { return objc_retain(self); })
        .method("description", [](const Error &self) { return make_string(describe(self)); })
        .registered();
}

}  // namespace qwisp::objc
