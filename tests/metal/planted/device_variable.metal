// program_scope: total: a program-scope variable that is not constant
#include "compat.h"
#include "route_types.h"

device uint total;
QWISP_KERNEL(planted)(QWISP_BUFFER(uint, out, 0) QWISP_THREAD_ARGS) { out[0] = total; }
