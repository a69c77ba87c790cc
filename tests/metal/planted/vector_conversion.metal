// clang: cannot initialize a variable of type
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(float, out, 0) QWISP_THREAD_ARGS) {
    int2 whole = {1, 2};
    float2 parts = whole;
    out[0] = parts.x;
}
