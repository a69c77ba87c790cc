// known_functions: native_exp
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(float, out, 0) QWISP_THREAD_ARGS) { out[0] = native_exp(out[0]); }
