#define QWISP_VECTOR_TARGET neon
#include "metal_runtime/drivers/cpu/vector/kernels.h"
#include "metal_runtime/drivers/cpu/vector/targets.h"

namespace qwisp::metal::vector {

namespace {
bool runs_here() { return true; }
}  // namespace

extern const Target kNeon = neon::make_target("neon", runs_here);

}  // namespace qwisp::metal::vector
