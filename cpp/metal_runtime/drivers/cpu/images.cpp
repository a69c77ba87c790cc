#include "images.h"

#include <dlfcn.h>

#include <atomic>

#include "sha256.h"

extern "C" const qwisp::simt::KernelImage *qwisp_plain_image();
extern "C" const qwisp::simt::KernelImage *qwisp_contracted_image();

namespace qwisp::simt {

namespace {

// Only ever grows, without a lock that a fork could leave held.
struct Loaded {
    const KernelImage *image;
    const Loaded *next;
};
std::atomic<const Loaded *> loaded_images = nullptr;

template <class Visit>
void for_each_image(Visit visit) {
    visit(*qwisp_plain_image());
    visit(*qwisp_contracted_image());
    for (const Loaded *node = loaded_images.load(); node != nullptr; node = node->next) visit(*node->image);
}

std::string_view text_of(const KernelImage &image) { return {image.text, image.text_length}; }

}  // namespace

const KernelImage *find_image(std::string_view text, bool contracted) {
    const KernelImage *found = nullptr;
    for_each_image([&](const KernelImage &image) {
        if (found == nullptr && image.contracted == contracted && text_of(image) == text) found = &image;
    });
    return found;
}

const KernelImage *own_image() { return qwisp_plain_image(); }

bool is_own_image(const KernelImage &image) { return &image == qwisp_plain_image(); }

std::string load_kernel_image(const std::string &path) {
    void *const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return std::string("cannot load the kernel image: ") + dlerror();
    using Entry = const KernelImage *();
    auto *const entry = reinterpret_cast<Entry *>(dlsym(library, "qwisp_kernel_image"));
    if (entry == nullptr) return path + " is not a kernel image: it has no qwisp_kernel_image";
    const KernelImage *const image = entry();
    if (image->abi != kImageAbi) {
        return path + " was built for image interface " + std::to_string(image->abi) + ", this build has " +
               std::to_string(kImageAbi);
    }
    auto *const node = new Loaded{image, loaded_images.load()};
    while (!loaded_images.compare_exchange_weak(node->next, node)) {
    }
    return {};
}

std::string list_images() {
    std::string list;
    for_each_image([&](const KernelImage &image) {
        list += list.empty() ? "" : ", ";
        list += sha256_hex(text_of(image)).substr(0, 16) + (image.contracted ? " contracted" : "");
    });
    return list;
}

}  // namespace qwisp::simt
