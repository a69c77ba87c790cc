// no_wide_types: double
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(float, out, 0) QWISP_THREAD_ARGS) { out[group.x] = 0.5 * out[group.x]; }
