#define QWISP_VECTOR_TARGET avx512
#include "metal_runtime/drivers/cpu/vector/kernels.h"
#include "metal_runtime/drivers/cpu/vector/targets.h"

namespace qwisp::metal::vector {

namespace {
bool runs_here() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
}  // namespace

extern const Target kAvx512 = avx512::make_target("avx512", runs_here);

}  // namespace qwisp::metal::vector
