// no_recursion: recursion: even reaches itself
#include "compat.h"
#include "route_types.h"

inline bool odd(uint n);
inline bool even(uint n) { return n == 0 || odd(n - 1); }
inline bool odd(uint n) { return n != 0 && even(n - 1); }
QWISP_KERNEL(planted)(QWISP_BUFFER(uint, out, 0) QWISP_THREAD_ARGS) { out[group.x] = even(group.x); }
