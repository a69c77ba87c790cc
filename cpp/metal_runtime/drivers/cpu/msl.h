// The C++ front end of MSL: everything that shaders/compat.h expands its words to.
#pragma once
#include "msl_kernel.h"
#include "msl_memory.h"
#include "msl_simd.h"
#include "msl_types.h"
