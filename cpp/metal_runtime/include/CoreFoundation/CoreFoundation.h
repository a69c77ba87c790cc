#pragma once
#include <Block.h>
#include <dispatch/dispatch.h>
#include <math.h>
#include <objc/objc.h>
#include <stdint.h>

typedef double CFTimeInterval;
typedef const struct __CFString *CFStringRef;

#ifdef __cplusplus
extern "C" {
#endif
CFStringRef __CFStringMakeConstantString(const char *text) MTLSHIM_NAME(CFStringMakeConstantString);
#ifdef __cplusplus
}
#endif
/* clang has this builtin off macOS too, with Apple's constant layout; a macro wins over it. */
#define __builtin___CFStringMakeConstantString(text) __CFStringMakeConstantString(text)
