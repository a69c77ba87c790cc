// no_wide_types: long
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(uint, out, 0) QWISP_THREAD_ARGS) { unsigned long sum = out[0]; out[0] = uint(sum >> 1); }
