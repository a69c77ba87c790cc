#include "library.h"

#include <dlfcn.h>

namespace qwisp::metal::cuda {

Library::Library(const std::vector<std::string> &names) {
    for (const std::string &name : names) {
        handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) return;
        const char *const error = dlerror();
        if (why_.empty() && error != nullptr) why_ = error;
    }
}

void *Library::find(const char *symbol) {
    void *const found = handle_ == nullptr ? nullptr : dlsym(handle_, symbol);
    if (found == nullptr && missing_.empty()) missing_ = symbol;
    return found;
}

}  // namespace qwisp::metal::cuda
