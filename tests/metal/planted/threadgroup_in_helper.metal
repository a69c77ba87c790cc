// clang: cannot be declared in local address space
#include "compat.h"
#include "route_types.h"

inline void helper(QWISP_DEVICE(float) out, uint lane) {
    QWISP_THREADGROUP_ARRAY(float, shared, 32);
    shared[lane] = out[lane];
}
QWISP_KERNEL(planted)(QWISP_BUFFER(float, out, 0) QWISP_THREAD_ARGS) { helper(out, lane); }
