#include "metal_runtime/device/ns.h"

namespace qwisp::metal {

NS::String *ns_string(const std::string &text) {
    return NS::String::string(text.c_str(), NS::UTF8StringEncoding);
}

NS::String *ns_string(const std::optional<std::string> &text) { return text ? ns_string(*text) : nullptr; }

std::optional<std::string> text_of(const NS::String *string) {
    if (!string) return std::nullopt;
    const char *const text = string->utf8String();
    return text ? std::string(text) : std::string();
}

NS::Array *ns_array(const std::vector<NS::Object *> &objects) {
    return NS::Array::array(objects.data(), objects.size());
}

NS::Error *ns_error(const char *domain, NS::Integer code, const std::string &message) {
    NS::Dictionary *const info =
        NS::Dictionary::dictionary(ns_string(message), ns_string(std::string("NSLocalizedDescription")));
    return NS::Error::error(ns_string(std::string(domain)), code, info);
}

void report(NS::Error **error, const char *domain, NS::Integer code, const std::string &message) {
    if (error) *error = ns_error(domain, code, message);
}

std::string quoted(const Label &label) {
    const std::string text = label.text();
    return text.empty() ? std::string() : " '" + text + "'";
}

std::string size_text(const MTL::Size &size) {
    return std::to_string(size.width) + " x " + std::to_string(size.height) + " x " +
           std::to_string(size.depth);
}

}  // namespace qwisp::metal
