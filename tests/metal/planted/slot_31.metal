// kernel_arguments: a slot from 0 to 30
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(float, out, 31) QWISP_THREAD_ARGS) { out[0] = 1.0f; }
