#define QWISP_VECTOR_TARGET avx2
#include "metal_runtime/drivers/cpu/vector/kernels.h"
#include "metal_runtime/drivers/cpu/vector/targets.h"

namespace qwisp::metal::vector {

namespace {
bool runs_here() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");  // and F16C, which came first
}
}  // namespace

extern const Target kAvx2 = avx2::make_target("avx2", runs_here);

}  // namespace qwisp::metal::vector
