// What the CUDA driver does without a GPU and without NVRTC: reading the shader text, keeping machine code.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "child.h"
#include "metal_runtime/drivers/cpu/cpu_module.h"
#include "metal_runtime/drivers/cpu/images.h"
#include "metal_runtime/drivers/cuda/cubin_cache.h"
#include "metal_runtime/drivers/cuda/cuda_module.h"
#include "metal_runtime/drivers/cuda/msl_text.h"

using namespace qwisp::metal;
using namespace qwisp::test;
namespace simt = qwisp::simt;
namespace fs = std::filesystem;

namespace {

std::string content(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

size_t files_in(const fs::path &folder) {
    return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// A folder of its own, which is what machine code is kept in as long as this lives.
struct Folder {
    fs::path path;

    Folder() {
        std::string text = (fs::temp_directory_path() / "qwisp-test-XXXXXX").string();
        REQUIRE(mkdtemp(text.data()) != nullptr);
        path = text;
        cuda::set_cubin_folder(text);
    }
    ~Folder() {
        cuda::set_cubin_folder("");
        fs::remove_all(path);
    }
};

}  // namespace

TEST_CASE("the header is embedded as it is") { CHECK(cuda::msl_text() == content(QWISP_TEST_MSL)); }

TEST_CASE("kernels are found in a text, each with its signature and its body") {
    const std::string text =
        "// QWISP_KERNEL(in_a_comment)\n"
        "#define NOT_AT_A_LINE QWISP_KERNEL(no)\n"
        "\nQWISP_KERNEL(one)(QWISP_BUFFER(float, out, 0),\n    QWISP_THREAD_ARGS) {\n    if (x) { y(); }\n}\n"
        "void helper() { AWAIT; }\n"
        "QWISP_KERNEL_OF(two, 256)(QWISP_WEIGHTS(uint, w, 1)) { z(); }\n";
    const auto kernels = kernels_in(text);
    REQUIRE(kernels.size() == 2);
    CHECK(kernels[0].name == "one");
    CHECK(kernels[0].signature ==
          "\nQWISP_KERNEL(one)(QWISP_BUFFER(float, out, 0),\n    QWISP_THREAD_ARGS) ");
    CHECK(kernels[0].body.find("if (x) { y(); }") != std::string::npos);
    CHECK(kernels[0].body.find("z();") == std::string::npos);
    CHECK(kernels[1].name == "two");
    CHECK(kernels[1].signature == "\nQWISP_KERNEL_OF(two, 256)(QWISP_WEIGHTS(uint, w, 1)) ");
    CHECK(kernels[1].body == "{ z(); }\n");
}

TEST_CASE("texts that end too soon or hold no kernel end the search") {
    CHECK(kernels_in("").empty());
    CHECK(kernels_in("QWISP_KERNEL(at_the_very_start) {}").empty());  // a text begins with its includes
    CHECK(kernels_in("\nQWISP_KERNEL(").empty());
    CHECK(kernels_in("\nQWISP_KERNEL(name").empty());
    CHECK(kernels_in("\nQWISP_KERNEL(a)() { b(); }\nQWISP_KERNEL_OF(c, 3)(").size() == 1);
}

TEST_CASE("the kernels of the shaders are those that their reflection has") {
    const simt::KernelImage &own = *simt::own_image();
    std::set<std::string> read, reflected;
    for (const KernelText &kernel : kernels_in({own.text, own.text_length})) {
        CHECK(read.insert(kernel.name).second);
        CHECK(kernel.body.find('}') != std::string::npos);
    }
    const CpuModule module(own);
    for (const FunctionInfo &function : module.functions()) {
        reflected.insert(function.name);
        const auto kernels = kernels_in({own.text, own.text_length});
        const auto kernel = std::find_if(kernels.begin(), kernels.end(),
                                         [&](const KernelText &each) { return each.name == function.name; });
        REQUIRE(kernel != kernels.end());
        for (const Argument &argument : function.arguments) {  // how the driver finds what may be read early
            INFO(function.name << ", " << argument.name);
            CHECK(kernel->signature.find(", " + argument.name + ", ") != std::string::npos);
        }
    }
    CHECK(read == reflected);
    CHECK(read.size() > 4);
}

TEST_CASE("machine code is kept") {
    const Folder folder;
    const std::string code("\177ELF\0code", 9);
    CHECK(cuda::stored_cubin("key").empty());
    cuda::store_cubin("key", code);
    CHECK(cuda::stored_cubin("key") == code);
    CHECK(cuda::stored_cubin("other").empty());
    cuda::store_cubin("key", "newer");
    CHECK(cuda::stored_cubin("key") == "newer");
    CHECK(files_in(folder.path) == 1);

    SUBCASE("what is not what was written counts as absent") {
        const fs::path file = folder.path / "key.cubin";
        const std::string good = content(file);
        for (const std::string &bad : {std::string(), good.substr(0, 64), good.substr(0, good.size() - 1),
                                       good + "x", "0" + good.substr(1) + "0"}) {
            std::ofstream(file, std::ios::binary) << bad;
            CHECK(cuda::stored_cubin("key").empty());
        }
        for (size_t at = 0; at < good.size(); at++) {
            std::string flipped = good;
            flipped[at] ^= 1;
            for (const std::string &bad : {flipped, good.substr(0, at), flipped.substr(at)}) {
                std::ofstream(file, std::ios::binary) << bad;
                CHECK(cuda::stored_cubin("key").empty());
            }
        }
    }
    SUBCASE("a full disk leaves what was there") {
        CHECK(in_child([] {
                  signal(SIGXFSZ, SIG_IGN);
                  const rlimit small = {100, RLIM_INFINITY};
                  setrlimit(RLIMIT_FSIZE, &small);
                  cuda::store_cubin("key", std::string(1000, 'x'));
                  return cuda::stored_cubin("key") == "newer" ? 0 : 1;
              }) == "exit 0");
        CHECK(files_in(folder.path) == 1);
        cuda::store_cubin("key", "newest");
        CHECK(cuda::stored_cubin("key") == "newest");
    }
    SUBCASE("a killed writer leaves old code or new") {
        for (unsigned turn = 1; turn <= 10; turn++) {
            const pid_t child = fork();
            if (child == 0) {
                alarm(kPatience);
                for (char letter = 'a';; letter = letter == 'z' ? 'a' : char(letter + 1))
                    cuda::store_cubin("key", std::string(100'000, letter));
            }
            usleep(turn * 1000);
            kill(child, SIGKILL);
            waitpid(child, nullptr, 0);
            const std::string kept = cuda::stored_cubin("key");
            CHECK((kept == "newer" || kept == std::string(100'000, kept[0])));
        }
        cuda::store_cubin("key", "newest");
        CHECK(cuda::stored_cubin("key") == "newest");
    }
}

TEST_CASE("a folder that cannot be used costs nothing but the keeping") {
    const Folder folder;
    const auto nothing_is_kept = [](const fs::path &path) {
        cuda::set_cubin_folder(path.string());
        cuda::store_cubin("key", "code");
        CHECK(cuda::stored_cubin("key").empty());
    };
    SUBCASE("none") { nothing_is_kept(""); }
    SUBCASE("a file is in its place") {
        std::ofstream(folder.path / "file") << "text";
        nothing_is_kept(folder.path / "file");
        nothing_is_kept(folder.path / "file" / "below");
    }
    SUBCASE("no one may write there") {
        if (geteuid() == 0) return;  // root may
        chmod(folder.path.c_str(), 0500);
        nothing_is_kept(folder.path);
        nothing_is_kept(folder.path / "below");
        chmod(folder.path.c_str(), 0700);
    }
}
