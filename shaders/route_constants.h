// Function constants: compile-time where a kernel reads them, so that H, E and K unroll.
#pragma once
#include "compat.h"
#include "route_types.h"

QWISP_CONSTANT(bool, kUseBias);
QWISP_CONSTANT(bool, kWriteLogits);
QWISP_CONSTANT(uint, kHidden);
QWISP_CONSTANT(uint, kExperts);
QWISP_CONSTANT(uint, kTopK);
QWISP_CONSTANT(uint, kTileRows);
