// One vector target against the scalar contract, for tests/test_planted_vector.py, which compiles this with a
// fault in a copy of the target's headers. Exit status 1, and what differs, if it does.
#define QWISP_VECTOR_TARGET planted
#include "metal_runtime/drivers/cpu/vector/kernels.h"

#include <cstdio>

#include "vector_reference.h"

int main() {
    using namespace qwisp;
    constexpr metal::vector::Target kTarget = metal::vector::planted::make_target("planted", nullptr);
    const auto told = test::RandomRows(kTarget, 1).compare(50'000);
    if (told) std::printf("%s\n", told->c_str());
    return told ? 1 : 0;
}
