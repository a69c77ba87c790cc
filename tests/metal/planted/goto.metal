// words: goto
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(float, out, 0) QWISP_THREAD_ARGS) {
again:
    out[0] += 1.0f;
    if (out[0] < 9.0f) goto again;
}
