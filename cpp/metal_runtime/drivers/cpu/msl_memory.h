// Pointers into device and threadgroup memory, and atomics.
#pragma once
#include <type_traits>

#include "msl_access.h"

QWISP_SIMT_BEGIN

struct atomic_uint {
    uint value;
};
enum memory_order { memory_order_relaxed };

template <class T, Space S>
class Pointer;

// What p[i] is for a T that may be written.
template <class T, Space S>
class Reference {
  public:
    Reference(Region *region, size_t offset) : region_(region), offset_(offset) {}
    Reference(const Reference &) = default;

    operator T() const { return load<S, T>(*region_, offset_); }
    explicit operator float() const requires(std::is_same_v<T, half>) {
        return float(load<S, T>(*region_, offset_));
    }
    Pointer<T, S> operator&() const { return Pointer<T, S>(region_, offset_); }

    T operator=(T value) const {
        store<S, T>(*region_, offset_, value);
        return value;
    }
    T operator=(const Reference &other) const { return *this = T(other); }
    T operator+=(T value) const { return *this = T(T(*this) + value); }
    T operator-=(T value) const { return *this = T(T(*this) - value); }
    T operator*=(T value) const { return *this = T(T(*this) * value); }
    T operator|=(T value) const { return *this = T(T(*this) | value); }
    T operator&=(T value) const { return *this = T(T(*this) & value); }
    T operator++() const { return *this += T(1); }

  private:
    Region *region_;
    size_t offset_;
};

inline constinit Region null_region{};

template <class T, Space S>
class Pointer {
  public:
    using Value = std::remove_const_t<T>;

    Pointer(std::nullptr_t = nullptr) : Pointer(&null_region, 0) {}
    Pointer(Region *region, size_t offset) : region_(region), offset_(offset) {}

    // To const implicitly, to another element type by a cast, never away from const.
    operator Pointer<const Value, S>() const requires(!std::is_const_v<T>) { return {region_, offset_}; }
    template <class U>
    requires(!std::is_same_v<const U, const Value> && (std::is_const_v<U> || !std::is_const_v<T>)) explicit
    operator Pointer<U, S>() const {
        return {region_, offset_};
    }

    Value operator[](size_t i) const requires(std::is_const_v<T>) {
        return load<S, Value>(*region_, offset_ + i * sizeof(T));
    }
    Reference<T, S> operator[](size_t i) const requires(!std::is_const_v<T>) {
        return {region_, offset_ + i * sizeof(T)};
    }
    decltype(auto) operator*() const { return (*this)[0]; }

    Pointer &operator+=(ptrdiff_t n) { return *this = *this + n; }
    Pointer &operator-=(ptrdiff_t n) { return *this = *this - n; }
    Pointer &operator++() { return *this += 1; }
    friend Pointer operator+(Pointer p, ptrdiff_t n) {
        return {p.region_, p.offset_ + static_cast<size_t>(n) * sizeof(T)};
    }
    friend Pointer operator-(Pointer p, ptrdiff_t n) { return p + -n; }
    friend ptrdiff_t operator-(Pointer a, Pointer b) {
        return static_cast<ptrdiff_t>(a.offset_ - b.offset_) / ptrdiff_t{sizeof(T)};
    }
    friend bool operator==(Pointer a, Pointer b) {
        return a.region_->base == b.region_->base && a.offset_ == b.offset_;
    }
    friend bool operator==(Pointer a, std::nullptr_t) { return a.region_->base == nullptr; }

    Region &region() const { return *region_; }
    size_t offset() const { return offset_; }

  private:
    Region *region_;
    size_t offset_;  // bytes; wraps below the start, which no bound admits
};

template <class T>
using DevicePtr = Pointer<T, Space::device>;
template <class T>
using ThreadgroupPtr = Pointer<T, Space::threadgroup>;

template <Space S>
inline uint atomic_load_explicit(Pointer<atomic_uint, S> p, memory_order) {
    return atomic<S>(p.region(), p.offset(), AtomicOp::load, 0);
}
template <Space S>
inline uint atomic_load_explicit(Pointer<const atomic_uint, S> p, memory_order) {
    return atomic<S>(p.region(), p.offset(), AtomicOp::load, 0);
}
template <Space S>
inline void atomic_store_explicit(Pointer<atomic_uint, S> p, uint value, memory_order) {
    atomic<S>(p.region(), p.offset(), AtomicOp::store, value);
}
template <Space S>
inline uint atomic_exchange_explicit(Pointer<atomic_uint, S> p, uint value, memory_order) {
    return atomic<S>(p.region(), p.offset(), AtomicOp::exchange, value);
}
template <Space S>
inline uint atomic_fetch_add_explicit(Pointer<atomic_uint, S> p, uint value, memory_order) {
    return atomic<S>(p.region(), p.offset(), AtomicOp::add, value);
}
template <Space S>
inline uint atomic_fetch_or_explicit(Pointer<atomic_uint, S> p, uint value, memory_order) {
    return atomic<S>(p.region(), p.offset(), AtomicOp::bit_or, value);
}

QWISP_SIMT_END
