// Names that hosts give to objects. Any thread may set or read one at any time.
#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace qwisp::metal {

// One for all labels, so that a fork finds a single lock to hold; never destroyed.
inline std::mutex &label_mutex() {
    static auto *const mutex = new std::mutex;
    return *mutex;
}

class Label {
  public:
    void set(std::optional<std::string> text) {
        const std::lock_guard lock(label_mutex());
        text_.swap(text);
    }
    std::optional<std::string> get() const {
        const std::lock_guard lock(label_mutex());
        return text_;
    }
    std::string text() const { return get().value_or(std::string()); }

  private:
    std::optional<std::string> text_;
};

}  // namespace qwisp::metal
