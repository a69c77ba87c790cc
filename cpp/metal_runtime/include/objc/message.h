#pragma once
#include <objc/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif
void objc_msgSend(void) MTLSHIM_NAME(objc_msgSend);
#if defined(__x86_64__)
void objc_msgSend_fpret(void) MTLSHIM_NAME(objc_msgSend_fpret);
void objc_msgSend_stret(void) MTLSHIM_NAME(objc_msgSend_stret);
#endif

id objc_retain(id object) MTLSHIM_NAME(objc_retain);
void objc_release(id object) MTLSHIM_NAME(objc_release);
id objc_autorelease(id object) MTLSHIM_NAME(objc_autorelease);
void *objc_autoreleasePoolPush(void) MTLSHIM_NAME(objc_autoreleasePoolPush);
void objc_autoreleasePoolPop(void *pool) MTLSHIM_NAME(objc_autoreleasePoolPop);
#ifdef __cplusplus
}
#endif
