// words: a lambda
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(uint, out, 0) QWISP_THREAD_ARGS) { auto twice = [](uint n) { return 2 * n; }; out[0] = twice(out[0]); }
