// SHA-256, in hex, to name shader texts in messages.
#pragma once
#include <string>
#include <string_view>

namespace qwisp {

std::string sha256_hex(std::string_view text);

}  // namespace qwisp
