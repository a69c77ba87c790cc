// CUDA C++ text to machine code at run time, through NVRTC.
#pragma once
#include <string>
#include <vector>

namespace qwisp::metal::cuda {

// Where to look for libnvrtc beside the loader's own places; before the first use only.
void set_nvrtc_paths(std::vector<std::string> paths);

// "" if there is an NVRTC that can be used; else why not.
const std::string &why_no_nvrtc();
// "13.0"
std::string nvrtc_version();

struct Source {
    std::string text;
    std::string header, header_name;  // what the text includes
    std::vector<std::string> options;
};
// Machine code, or nothing and the compiler's own words in `error`.
std::string compile(const Source &source, std::string *error);

}  // namespace qwisp::metal::cuda
