// Between Foundation objects and C++, through metal-cpp only. Objects returned here are autoreleased.
#pragma once
#include <Block.h>

#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metal_runtime/device/label.h"

namespace qwisp::metal {

NS::String *ns_string(const std::string &text);
NS::String *ns_string(const std::optional<std::string> &text);  // nothing: null
std::optional<std::string> text_of(const NS::String *string);   // null: nothing
NS::Array *ns_array(const std::vector<NS::Object *> &objects);
NS::Error *ns_error(const char *domain, NS::Integer code, const std::string &message);

// Stores the error if the caller wants one.
void report(NS::Error **error, const char *domain, NS::Integer code, const std::string &message);

inline constexpr const char *kLibraryErrorDomain = "MTLLibraryErrorDomain";
inline constexpr const char *kCommandBufferErrorDomain = "MTLCommandBufferErrorDomain";

// " 'x'" for messages, or nothing.
std::string quoted(const Label &label);
std::string size_text(const MTL::Size &size);  // "8 x 4 x 1"

class PoolScope {
  public:
    PoolScope() : pool_(NS::AutoreleasePool::alloc()->init()) {}
    ~PoolScope() { pool_->release(); }
    PoolScope(const PoolScope &) = delete;
    PoolScope &operator=(const PoolScope &) = delete;

  private:
    NS::AutoreleasePool *pool_;
};

// A block as a method receives it: one pointer, whatever the compiler calls its type.
struct BlockPointer {
    void *layout;
};

// A copied block that is called later, with the arguments of its declaration.
class Block {
  public:
    Block() = default;
    explicit Block(BlockPointer block) : layout_(block.layout ? _Block_copy(block.layout) : nullptr) {}
    Block(Block &&other) noexcept : layout_(std::exchange(other.layout_, nullptr)) {}
    Block &operator=(Block &&other) noexcept {
        std::swap(layout_, other.layout_);
        return *this;
    }
    ~Block() {
        if (layout_) _Block_release(layout_);
    }
    explicit operator bool() const { return layout_ != nullptr; }

    template <class... A>
    void operator()(A... args) const {
        const void *const invoke = static_cast<void *const *>(layout_)[2];  // after isa and two ints
        reinterpret_cast<void (*)(void *, A...)>(const_cast<void *>(invoke))(layout_, args...);
    }

  private:
    void *layout_ = nullptr;
};

}  // namespace qwisp::metal
