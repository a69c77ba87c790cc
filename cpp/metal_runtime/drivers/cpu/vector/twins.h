// The kernels of the library by vectors: the grid of one dispatch, in the contract's order.
#pragma once
#include "metal_runtime/drivers/cpu/cpu_module.h"
#include "metal_runtime/drivers/cpu/vector/target.h"
#include "metal_runtime/drivers/cpu/vector/team.h"

namespace qwisp::metal::vector {

// False: nothing was written, and the executor must run the dispatch. So it is for anything that the
// executor would report as a fault or that only it defines: a grid that is not the kernel's own, buffers
// too short or overlapping, fused counters that are not 0, another shader text.
bool run_twin(const Target &target, const Dispatch &dispatch, Team::Session &session);

// How many weights the dispatch multiplies, to judge whether help is worth a wake-up.
uint64_t weights_of(const Dispatch &dispatch);

}  // namespace qwisp::metal::vector
