// One shader text as a kernel image. Compile with
//     -DQWISP_IMAGE_TEXT='"/absolute/path/of/text.metal"'
// and, for a shared object that load_kernel_image() can load (cpu/CMakeLists.txt has the same as a function,
// qwisp_add_kernel_image):
//     g++ -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -ffp-contract=off -Wno-unknown-pragmas
//         -I cpp/metal_runtime/drivers/cpu -DQWISP_IMAGE_TEXT='"/absolute/path/of/text.metal"'
//         cpp/metal_runtime/drivers/cpu/image_main.cpp -o text.so
// With contraction: -ffp-contract=fast -DQWISP_CONTRACT_COMPILER=1.
// The text lists its kernels as QWISP_KERNELS(X), as shaders/route_types.h does.
#include "msl.h"

#if !defined(QWISP_IMAGE_ENTRY)
#define QWISP_IMAGE_ENTRY qwisp_kernel_image
#define QWISP_IMAGE_VISIBILITY "default"
#else
#define QWISP_IMAGE_VISIBILITY "hidden"
#endif
#define QWISP_STRING_OF(x) #x
#define QWISP_STRING(x) QWISP_STRING_OF(x)
#if defined(QWISP_CONTRACT_COMPILER)
#define QWISP_IMAGE_CONTRACTED true
#else
#define QWISP_IMAGE_CONTRACTED false
#endif

// The text itself, byte for byte.
#define QWISP_TEXT_BEGIN "qwisp_text_begin_" QWISP_STRING(QWISP_IMAGE)
#define QWISP_TEXT_END "qwisp_text_end_" QWISP_STRING(QWISP_IMAGE)
#if defined(__APPLE__)
#define QWISP_TEXT_SECTION ".section __TEXT,__const"
#define QWISP_TEXT_SYMBOL(name) ".globl " name "\n.private_extern " name "\n" name ":\n"
#else
#define QWISP_TEXT_SECTION ".section .rodata,\"a\""
#define QWISP_TEXT_SYMBOL(name) ".globl " name "\n.hidden " name "\n" name ":\n"
#endif
// clang-format off
asm(QWISP_TEXT_SECTION "\n" QWISP_TEXT_SYMBOL(QWISP_TEXT_BEGIN) ".incbin " QWISP_STRING(QWISP_IMAGE_TEXT) "\n"
    QWISP_TEXT_SYMBOL(QWISP_TEXT_END) ".text");
// clang-format on
extern "C" __attribute__((visibility("hidden"))) const char qwisp_text_begin[] asm(QWISP_TEXT_BEGIN);
extern "C" __attribute__((visibility("hidden"))) const char qwisp_text_end[] asm(QWISP_TEXT_END);

namespace qwisp::kernels {
namespace {

// Only the text itself may use instructions that a processor may lack, not what the linker shares between
// files.
#if defined(QWISP_CONTRACT_COMPILER) && defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("fma")
#endif
#endif

#include QWISP_IMAGE_TEXT

#if defined(QWISP_CONTRACT_COMPILER) && defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

constexpr simt::FunctionImage kFunctions[] = {QWISP_KERNELS(QWISP_FUNCTION_IMAGE)};

}  // namespace
}  // namespace qwisp::kernels

extern "C" __attribute__((visibility(QWISP_IMAGE_VISIBILITY))) const qwisp::simt::KernelImage *
QWISP_IMAGE_ENTRY() {
    using namespace qwisp;
    static const simt::KernelImage image{
        simt::kImageAbi,       QWISP_IMAGE_CONTRACTED,
        qwisp_text_begin,      static_cast<size_t>(qwisp_text_end - qwisp_text_begin),
        kernels::kFunctions,   sizeof(kernels::kFunctions) / sizeof(kernels::kFunctions[0]),
        &simt::first_constant, &simt::current_slot,
    };
    return &image;
}
