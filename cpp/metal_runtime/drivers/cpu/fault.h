// Faults of a running kernel, and how their messages name things.
#pragma once
#include <string>

#include "image.h"

namespace qwisp::simt {

struct Fault {  // thrown on the stack of the thread that failed, caught at its bottom
    std::string message;
};

std::string name_at(Rendezvous kind, uint32_t line);

}  // namespace qwisp::simt
