// clang: Metal: at most 1024 threads
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL_OF(planted, 2 * kMaxSingleThreads)(QWISP_BUFFER(float, out, 0) QWISP_THREAD_ARGS) { out[lane] = 1.0f; }
