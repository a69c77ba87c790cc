#pragma once
#include <objc/objc.h>

#ifdef __cplusplus
extern "C" {
#endif
SEL sel_registerName(const char *name) MTLSHIM_NAME(sel_registerName);
const char *sel_getName(SEL selector) MTLSHIM_NAME(sel_getName);

/* Unlike Apple's, the lookups never return nil: a class nobody has defined is named when a message reaches
 * it. */
Class objc_lookUpClass(const char *name) MTLSHIM_NAME(objc_lookUpClass);
Class objc_getClass(const char *name) MTLSHIM_NAME(objc_getClass);
Protocol *objc_getProtocol(const char *name) MTLSHIM_NAME(objc_getProtocol);

Class objc_allocateClassPair(Class superclass, const char *name, size_t extra_bytes)
    MTLSHIM_NAME(objc_allocateClassPair);
void objc_registerClassPair(Class cls) MTLSHIM_NAME(objc_registerClassPair);
BOOL class_addMethod(Class cls, SEL selector, IMP imp, const char *types) MTLSHIM_NAME(class_addMethod);
IMP class_getMethodImplementation(Class cls, SEL selector) MTLSHIM_NAME(class_getMethodImplementation);
BOOL class_respondsToSelector(Class cls, SEL selector) MTLSHIM_NAME(class_respondsToSelector);
Class class_getSuperclass(Class cls) MTLSHIM_NAME(class_getSuperclass);
const char *class_getName(Class cls) MTLSHIM_NAME(class_getName);
id class_createInstance(Class cls, size_t extra_bytes) MTLSHIM_NAME(class_createInstance);

Class object_getClass(id object) MTLSHIM_NAME(object_getClass);
id object_dispose(id object) MTLSHIM_NAME(object_dispose);
/* The extra bytes of class_createInstance follow the class pointer, the reference count and the size. */
static inline void *object_getIndexedIvars(id object) { return (char *)object + 16; }
#ifdef __cplusplus
}
#endif
