#define QWISP_VECTOR_TARGET portable
#include "metal_runtime/drivers/cpu/vector/kernels.h"
#include "metal_runtime/drivers/cpu/vector/targets.h"

namespace qwisp::metal::vector {

namespace {
bool runs_here() { return true; }
}  // namespace

extern const Target kPortable = portable::make_target("portable", runs_here);

}  // namespace qwisp::metal::vector
