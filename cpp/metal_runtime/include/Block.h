/* Apple's blocks runtime, and for compilers without blocks a template with the same layout (the "block ABI"),
   so that code built by gcc and by clang -fblocks can pass blocks to each other. */
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
/* The names that clang -fblocks emits; the runtime keeps them hidden. */
void *_Block_copy(const void *block);
void _Block_release(const void *block);
void _Block_object_assign(void *target, const void *object, const int flags);
void _Block_object_dispose(const void *object, const int flags);
extern void *_NSConcreteStackBlock[32];
extern void *_NSConcreteGlobalBlock[32];
#ifdef __cplusplus
}
#endif

#if defined(__BLOCKS__) || !defined(__cplusplus)
#define Block_copy(...) ((__typeof(__VA_ARGS__))_Block_copy((const void *)(__VA_ARGS__)))
#define Block_release(...) _Block_release((const void *)(__VA_ARGS__))
#else
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#define __block /* a literal captures by value ([=]) */

namespace mtlshim {

struct BlockDescriptor {
    unsigned long reserved, size;
    void (*copy)(void *to, const void *from);
    void (*dispose)(const void *block);
};
struct BlockLayout {
    void *isa;
    int flags, reserved;
    void (*invoke)(void);
    const BlockDescriptor *descriptor;
};
constexpr int kBlockHasCopyDispose = 1 << 25;

// Stands for the type `R (^)(A...)`: one pointer, passed like one.
template <class Signature>
struct Block;
template <class R, class... A>
struct Block<R(A...)> {
    BlockLayout *layout;

    Block() = default;
    constexpr Block(std::nullptr_t) : layout(nullptr) {}
    explicit constexpr Block(BlockLayout *pointer) : layout(pointer) {}
    explicit operator bool() const { return layout != nullptr; }
    R operator()(A... args) const {
        return reinterpret_cast<R (*)(BlockLayout *, A...)>(layout->invoke)(layout, args...);
    }
};

// A block literal on the stack. It lives until the end of the full expression: copy the block to keep it.
template <class F>
struct Literal : BlockLayout {
    F function;

    explicit Literal(F f)
        : BlockLayout{_NSConcreteStackBlock, kBlockHasCopyDispose, 0, nullptr, &kDescriptor},
          function(std::move(f)) {}
    Literal(const Literal &) = delete;
    Literal &operator=(const Literal &) = delete;

    template <class R, class... A, class = std::enable_if_t<std::is_invocable_r_v<R, F &, A...>>>
    operator Block<R(A...)>() {
        invoke = reinterpret_cast<void (*)()>(&call<R, A...>);
        return Block<R(A...)>(this);
    }

  private:
    static Literal *from(const void *block) { return static_cast<Literal *>((BlockLayout *)block); }
    template <class R, class... A>
    static R call(BlockLayout *block, A... args) {
        return from(block)->function(args...);
    }
    static void copy(void *to, const void *source) { ::new (&from(to)->function) F(from(source)->function); }
    static void dispose(const void *block) { from(block)->function.~F(); }
    static const BlockDescriptor kDescriptor;
};
template <class F>
const BlockDescriptor Literal<F>::kDescriptor = {0, sizeof(Literal<F>), &Literal<F>::copy,
                                                 &Literal<F>::dispose};

// `::mtlshim::literal % [=](A) {...}` is what the header rewrite makes of `^(A) {...}`.
struct LiteralMaker {
    template <class F>
    Literal<F> operator%(F function) const {
        return Literal<F>(std::move(function));
    }
};
inline constexpr LiteralMaker literal{};

}  // namespace mtlshim

template <class Signature>
mtlshim::Block<Signature> Block_copy(mtlshim::Block<Signature> block) {
    return mtlshim::Block<Signature>(static_cast<mtlshim::BlockLayout *>(_Block_copy(block.layout)));
}
template <class Signature>
void Block_release(mtlshim::Block<Signature> block) {
    _Block_release(block.layout);
}
#endif
