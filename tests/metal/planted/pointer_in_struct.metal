// kernel_arguments: holds a pointer
#include "compat.h"
#include "route_types.h"

struct Args { QWISP_DEVICE(float) out; };
QWISP_KERNEL(planted)(QWISP_ARGS(Args, args, 0) QWISP_THREAD_ARGS) { args.out[group.x] = 1.0f; }
