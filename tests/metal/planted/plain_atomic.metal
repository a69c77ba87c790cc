// conversions: an atomic read or written as a plain value
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(atomic_uint, count, 0) QWISP_THREAD_ARGS) {
    const uint seen = count[0];
    if (seen == groups.x) atomic_store_explicit(count, 0u, memory_order_relaxed);
}
