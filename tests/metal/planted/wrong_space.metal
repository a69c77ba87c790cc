// clang: no matching function
#include "compat.h"
#include "route_types.h"

inline float first(QWISP_THREADGROUP(const float) values) { return values[0]; }
QWISP_KERNEL(planted)(QWISP_BUFFER(float, out, 0) QWISP_THREAD_ARGS) { out[1] = first(out); }
