// clang: can only be declared in the outermost scope of a kernel function
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(float, out, 0) QWISP_THREAD_ARGS) {
    if (groups.x > 1) {
        QWISP_THREADGROUP_ARRAY(float, shared, 32);
        shared[lane] = out[lane];
    }
}
