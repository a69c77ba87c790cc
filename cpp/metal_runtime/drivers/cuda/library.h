// A shared library found when it is needed, and never closed.
#pragma once
#include <string>
#include <vector>

namespace qwisp::metal::cuda {

class Library {
  public:
    // The first of `names` that opens.
    explicit Library(const std::vector<std::string> &names);

    bool found() const { return handle_ != nullptr; }
    const std::string &why() const { return why_; }  // what the loader said, if none was found
    // Remembers the first symbol that is missing.
    template <class F>
    void load(F *&function, const char *symbol) {
        function = reinterpret_cast<F *>(find(symbol));
    }
    const std::string &missing() const { return missing_; }

  private:
    void *find(const char *symbol);

    void *handle_ = nullptr;
    std::string why_, missing_;
};

}  // namespace qwisp::metal::cuda
