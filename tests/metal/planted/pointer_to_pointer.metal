// kernel_arguments: a pointer to a pointer
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(device float *device *out [[buffer(0)]] QWISP_THREAD_ARGS) { out[0][group.x] = 1.0f; }
