// Kernels and their reflection, which follows from the types of their parameters. A kernel is a function
//     static void name(Uses<constants...>,  // optional: the function constants that it reads
//                      BufferArg<T, "name", slot>..., BufferArgIf<...>..., ConstantArg<...>...,
//                      uint3 group, uint3 groups, uint thread_index, uint lane, uint simdgroup, uint
//                      simdgroups)
// Without Uses, a kernel with a BufferArgIf counts as reading every function constant of its image, and any
// other kernel as reading none. Threadgroup arrays stand before the first access or barrier of a kernel.
#pragma once
#include <type_traits>
#include <utility>

#include "msl_memory.h"

QWISP_SIMT_BEGIN

template <size_t N>
struct FixedString {
    char text[N];
    constexpr FixedString(const char (&from)[N]) {
        for (size_t i = 0; i < N; i++) text[i] = from[i];
    }
};

inline constinit const ConstantNode *first_constant = nullptr;
struct LinkedConstant : ConstantNode {
    explicit LinkedConstant(ConstantInfo constant) : ConstantNode{constant, first_constant} {
        first_constant = this;
    }
};

template <class T>
inline constexpr ConstantKind constant_kind = ConstantKind::uint32;
template <>
inline constexpr ConstantKind constant_kind<bool> = ConstantKind::boolean;
template <>
inline constexpr ConstantKind constant_kind<float> = ConstantKind::float32;

template <class T, FixedString Name, uint32_t Index>
struct FunctionConstant {
    static_assert(Index < kMaxConstants);
    static constexpr ConstantInfo kInfo{Name.text, Index, constant_kind<T>};
    static inline const LinkedConstant linked{kInfo};  // exists only where the constant is read

    operator T() const {
        const ConstantInfo &info = linked.info;
        const ThreadContext &thread = *current;
        if ((thread.constants_set >> info.index & 1) == 0) [[unlikely]] {
            thread.services->undeclared_constant(info.name, info.index);
        }
        const uint32_t bits = thread.constants[info.index];
        if constexpr (std::is_same_v<T, bool>) {
            return bits != 0;
        } else {
            return as_type<T>(bits);
        }
    }
};

template <auto... Constants>
struct Uses {
    static constexpr uint32_t kCount = sizeof...(Constants);
    static constexpr ConstantInfo kConstants[] = {Constants.kInfo..., {}};
    explicit Uses(ThreadContext &) {}
};

template <class T>
constexpr ArgumentInfo describe(const char *name, uint32_t slot, bool is_constant, int32_t condition) {
    return {name, slot, !std::is_const_v<T> && !is_constant, is_constant, sizeof(T), alignof(T), condition};
}

template <class T, FixedString Name, uint32_t Slot>
struct BufferArg : DevicePtr<T> {
    static_assert(Slot < kMaxSlots);
    static constexpr ArgumentInfo kArgument = describe<T>(Name.text, Slot, false, -1);
    explicit BufferArg(ThreadContext &thread) : DevicePtr<T>(&thread.arguments[Slot], 0) {}
};

// Null unless the boolean function constant is true.
template <class T, FixedString Name, uint32_t Slot, uint32_t Condition>
struct BufferArgIf : DevicePtr<T> {
    static_assert(Slot < kMaxSlots && Condition < kMaxConstants);
    static constexpr ArgumentInfo kArgument = describe<T>(Name.text, Slot, false, Condition);
    explicit BufferArgIf(ThreadContext &thread) : DevicePtr<T>(&thread.arguments[Slot], 0) {}
};

// A copy of the struct, whose length the executor has checked.
template <class T, FixedString Name, uint32_t Slot>
struct ConstantArg : T {
    static_assert(Slot < kMaxSlots && std::is_trivially_copyable_v<T>);
    static constexpr ArgumentInfo kArgument = describe<T>(Name.text, Slot, true, -1);
    explicit ConstantArg(ThreadContext &thread) {
        std::memcpy(static_cast<T *>(this), thread.arguments[Slot].base, sizeof(T));
    }
};

// Kernel scope only. Every thread of the group gets the same memory.
template <class T, uint32_t N>
struct ThreadgroupArray : ThreadgroupPtr<T> {
    explicit ThreadgroupArray(const char *name)
        : ThreadgroupPtr<T>(current->services->threadgroup_array(name, sizeof(T) * N, alignof(T)), 0) {}
};

template <class... P>
struct ArgumentList {
    ArgumentInfo items[kMaxSlots] = {};
    uint32_t count = 0;
    bool conditional = false;

    constexpr ArgumentList() { (add<P>(), ...); }

  private:
    template <class Q>
    constexpr void add() {
        if constexpr (requires { Q::kArgument; }) {
            items[count++] = Q::kArgument;
            conditional = conditional || Q::kArgument.required_by >= 0;
        }
    }
};
template <class... P>
inline constexpr ArgumentList<P...> argument_list;

inline constexpr size_t kThreadArguments = 6;

template <class P, size_t Distance>  // from the end of the parameter list
inline P make_parameter(ThreadContext &thread) {
    if constexpr (Distance > kThreadArguments) {
        return P(thread);
    } else if constexpr (Distance == 6) {
        return uint3{thread.group[0], thread.group[1], thread.group[2]};
    } else if constexpr (Distance == 5) {
        return uint3{thread.groups[0], thread.groups[1], thread.groups[2]};
    } else {
        const uint32_t positions[] = {thread.simdgroups, thread.simdgroup, thread.lane, thread.index};
        return positions[Distance - 1];
    }
}

template <auto Kernel, class First, class... P, size_t... I>
inline void invoke(ThreadContext &thread, void (*)(First, P...), std::index_sequence<I...>) {
    Kernel(make_parameter<First, sizeof...(P) + 1>(thread), make_parameter<P, sizeof...(P) - I>(thread)...);
}
template <auto Kernel, class First, class... P>
constexpr FunctionImage reflect(const char *name, void (*)(First, P...)) {
    static_assert(sizeof...(P) + 1 > kThreadArguments);
    constexpr auto &list = argument_list<First, P...>;
    FunctionImage image{name,   list.items, list.count, nullptr, list.conditional ? kEveryConstant : 0,
                        nullptr};
    if constexpr (requires { First::kConstants; }) {
        image.constants = First::kConstants;
        image.constant_count = First::kCount;
    }
    image.entry = [](ThreadContext &thread) {
        invoke<Kernel>(thread, Kernel, std::make_index_sequence<sizeof...(P)>());
    };
    return image;
}

#define QWISP_FUNCTION_IMAGE(name) ::qwisp::simt::reflect<&name>(#name, &name),

QWISP_SIMT_END
