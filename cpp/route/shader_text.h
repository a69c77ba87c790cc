// The shaders as one text, embedded at build time by cmake/EmbedShaders.cmake.
#pragma once
#include <string_view>

namespace qwisp {

std::string_view shader_text();
std::string_view shader_sha256();  // of the text, in hex

}  // namespace qwisp
