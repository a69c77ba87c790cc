// Machine code kept from one process to the next, in the user's cache folder.
#pragma once
#include <string>

namespace qwisp::metal::cuda {

// Empty: nothing is kept. Before the first use only.
void set_cubin_folder(std::string folder);

// What was stored under the key; empty if nothing was, or if the file is not what was written.
std::string stored_cubin(const std::string &key);
// Best effort: a folder that cannot be written costs a compilation the next time, and no more.
void store_cubin(const std::string &key, const std::string &code);

}  // namespace qwisp::metal::cuda
