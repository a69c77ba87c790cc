// words: vertex: a keyword
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(uint, out, 0) QWISP_THREAD_ARGS) { const uint vertex = group.x; out[0] = vertex; }
