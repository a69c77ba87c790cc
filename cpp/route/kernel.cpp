#include "route/kernel.h"

namespace qwisp {

const char *kernel_name(Kernel kernel) {
    switch (kernel) {
#define QWISP_KERNEL_NAME(name) \
    case Kernel::name:          \
        return #name;
        QWISP_KERNELS(QWISP_KERNEL_NAME)
#undef QWISP_KERNEL_NAME
    }
    return "?";
}

}  // namespace qwisp
