// Faults that a run must notice. For tests only.
#pragma once
#include <string_view>

#include "timing/harness.h"

namespace qwisp::timing {

// "": none. Otherwise one of these; arms count from 0, and arm 0 is never at fault.
//   ignored flag     the arms run the pair, whatever they were asked
//   wrong output     the arms route through another gate
//   extra dispatch   the arms route twice
//   no-op prefill    nothing is written to the input rows
//   frozen clock     the device's stamps stand still
// Throws std::invalid_argument.
Parts planted(std::string_view fault);

}  // namespace qwisp::timing
