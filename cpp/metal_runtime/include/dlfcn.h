/* Untouched metal-cpp headers read NSLocalizedDescriptionKey and the like by dlsym(RTLD_DEFAULT, name), which
   sees neither hidden symbols nor those of a module loaded with RTLD_LOCAL. Here that search starts in the
   runtime. */
#pragma once
#include_next <dlfcn.h>

#if defined(__cplusplus) && defined(RTLD_DEFAULT)
#include <objc/objc.h>

namespace mtlshim {
struct DefaultScope {
    constexpr operator void *() const { return nullptr; }  // the value of RTLD_DEFAULT
};
}  // namespace mtlshim
inline void *dlsym(mtlshim::DefaultScope scope, const char *name) {
    void *const known = mtlshim_symbol(name);
    return known ? known : dlsym(static_cast<void *>(scope), name);
}
#undef RTLD_DEFAULT
#define RTLD_DEFAULT (::mtlshim::DefaultScope{})
#endif
