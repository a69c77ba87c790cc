// The kernel images that this process can run.
#pragma once
#include <string>
#include <string_view>

#include "image.h"

namespace qwisp::simt {

// The image of exactly this text, or null.
const KernelImage *find_image(std::string_view text, bool contracted);

// The package's own text without contraction.
const KernelImage *own_image();
// The package's own text without contraction: the one that the vector kernels stand for.
bool is_own_image(const KernelImage &image);

// Loads a shared object built from image_main.cpp; it stays loaded. Returns an empty string or an error.
std::string load_kernel_image(const std::string &path);

// Hashes of the texts that can be run.
std::string list_images();

}  // namespace qwisp::simt
