#include "nvrtc.h"

#include <cstddef>

#include "library.h"

namespace qwisp::metal::cuda {
namespace {

using Program = struct ProgramTag *;

std::vector<std::string> &more_paths() {
    static auto *const paths = new std::vector<std::string>;
    return *paths;
}

std::vector<std::string> candidates() {
    std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                      "/usr/local/cuda/lib64/libnvrtc.so"};
    names.insert(names.end(), more_paths().begin(), more_paths().end());
    return names;
}

struct Nvrtc {
    int (*version)(int *, int *);
    const char *(*error_string)(int);
    int (*create)(Program *, const char *, const char *, int, const char *const *, const char *const *);
    int (*destroy)(Program *);
    int (*compile)(Program, int, const char *const *);
    int (*log_size)(Program, size_t *);
    int (*log)(Program, char *);
    int (*cubin_size)(Program, size_t *);
    int (*cubin)(Program, char *);
    std::string why;
    int major = 0, minor = 0;

    Nvrtc() {
        Library library(candidates());
        if (!library.found()) {
            why = "no NVRTC, the CUDA runtime compiler (pip install nvidia-cuda-nvrtc): " + library.why();
            return;
        }
        library.load(version, "nvrtcVersion");
        library.load(error_string, "nvrtcGetErrorString");
        library.load(create, "nvrtcCreateProgram");
        library.load(destroy, "nvrtcDestroyProgram");
        library.load(compile, "nvrtcCompileProgram");
        library.load(log_size, "nvrtcGetProgramLogSize");
        library.load(log, "nvrtcGetProgramLog");
        library.load(cubin_size, "nvrtcGetCUBINSize");
        library.load(cubin, "nvrtcGetCUBIN");
        if (!library.missing().empty()) {
            why = "NVRTC is too old: it has no " + library.missing();
        } else if (version(&major, &minor) != 0 || major < 12) {
            why = "NVRTC is too old: " + nvrtc_number() + ", but it must be 12.0 or later";
        }
    }

    std::string nvrtc_number() const { return std::to_string(major) + "." + std::to_string(minor); }
};

const Nvrtc &nvrtc() {  // never destroyed
    static const Nvrtc *const once = new Nvrtc;
    return *once;
}

}  // namespace

void set_nvrtc_paths(std::vector<std::string> paths) { more_paths() = std::move(paths); }

const std::string &why_no_nvrtc() { return nvrtc().why; }
std::string nvrtc_version() { return nvrtc().nvrtc_number(); }

std::string compile(const Source &source, std::string *error) {
    const Nvrtc &rtc = nvrtc();
    if (!rtc.why.empty()) {
        *error = rtc.why;
        return {};
    }
    std::vector<const char *> options;
    for (const std::string &option : source.options) options.push_back(option.c_str());
    const char *const header = source.header.c_str(), *const header_name = source.header_name.c_str();
    Program program = nullptr;
    int result = rtc.create(&program, source.text.c_str(), "route.metal", 1, &header, &header_name);
    if (result == 0) result = rtc.compile(program, int(options.size()), options.data());
    std::string code;
    size_t size = 0;
    if (result == 0 && (result = rtc.cubin_size(program, &size)) == 0) {
        code.resize(size);
        result = rtc.cubin(program, code.data());
    }
    if (result != 0) {
        *error = std::string("NVRTC: ") + rtc.error_string(result);
        if (program && rtc.log_size(program, &size) == 0 && size > 1) {
            std::string log(size, '\0');
            rtc.log(program, log.data());
            log.resize(size - 1);
            *error += "\n" + log;
        }
        code.clear();
    }
    if (program) rtc.destroy(&program);
    return code;
}

}  // namespace qwisp::metal::cuda
