#include "metal_runtime/drivers/cpu/vector/targets.h"

#include <vector>

namespace qwisp::metal::vector {

std::span<const Target *const> targets() {
    static const std::vector<const Target *> runnable = [] {
        std::vector<const Target *> found;
        for (const Target *target : {
#if defined(__x86_64__)
                 &kAvx512, &kAvx2,
#elif defined(__aarch64__)
                 &kNeon,
#endif
                     &kPortable
             }) {
            if (target->runs_here()) found.push_back(target);
        }
        return found;
    }();
    return runnable;
}

const Target *find_target(std::string_view name) {
    for (const Target *target : targets()) {
        if (target->name == name) return target;
    }
    return nullptr;
}

}  // namespace qwisp::metal::vector
