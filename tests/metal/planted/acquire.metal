// only_relaxed: memory_order_acquire
#include "compat.h"
#include "route_types.h"

QWISP_KERNEL(planted)(QWISP_BUFFER(atomic_uint, count, 0), QWISP_BUFFER(uint, out, 1) QWISP_THREAD_ARGS) {
    out[0] = atomic_load_explicit(count, memory_order_acquire);
}
