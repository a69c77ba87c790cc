/* Apple's header of the same name, as far as metal-cpp needs it off macOS. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Every entry point has a private link name: it cannot bind to a real libobjc in the same process, nor be
 * bound by one. */
#define MTLSHIM_NAME(name) __asm__("mtlshim_" #name)

#ifdef __cplusplus
extern "C" {
#else
#include <stdbool.h>
#endif
typedef struct objc_class *Class;
struct objc_object {
    Class isa;
};
typedef struct objc_object *id;
typedef struct objc_selector *SEL;
typedef struct objc_object Protocol;
typedef void (*IMP)(void);
typedef bool BOOL;
#ifndef YES
#define YES true
#define NO false
#endif

/* The address of a named constant (NSLocalizedDescriptionKey, ...) or null: what metal-cpp asks dlsym on
 * macOS. */
void *mtlshim_symbol(const char *name);
#ifdef __cplusplus
}
#endif
