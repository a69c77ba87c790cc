#include "cubin_cache.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "metal_runtime/drivers/cpu/sha256.h"

namespace qwisp::metal::cuda {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHashLength = 64;

std::string &folder() {
    static auto *const path = new std::string;
    return *path;
}

fs::path path_of(const std::string &key) { return fs::path(folder()) / (key + ".cubin"); }

}  // namespace

void set_cubin_folder(std::string path) { folder() = std::move(path); }

// A file is the hash of the code, then the code.
std::string stored_cubin(const std::string &key) {
    if (folder().empty()) return {};
    std::ifstream file(path_of(key), std::ios::binary);
    std::ostringstream read;
    read << file.rdbuf();  // catches what reading throws, of a folder for one
    const std::string all = std::move(read).str();
    if (all.size() <= kHashLength) return {};
    std::string code = all.substr(kHashLength);
    return sha256_hex(code) == all.substr(0, kHashLength) ? code : std::string();
}

void store_cubin(const std::string &key, const std::string &code) {
    if (folder().empty()) return;
    static std::atomic<unsigned> counter = 0;
    std::error_code error;
    fs::create_directories(folder(), error);
    const fs::path path = path_of(key);
    fs::path temporary = path;
    temporary += '.' + std::to_string(getpid()) + '.' + std::to_string(counter++);
    {
        std::ofstream file(temporary, std::ios::binary);
        file << sha256_hex(code) << code;
        if (!file.flush()) {
            file.close();
            fs::remove(temporary, error);
            return;
        }
    }
    fs::rename(temporary, path, error);
    if (error) fs::remove(temporary, error);
}

}  // namespace qwisp::metal::cuda
