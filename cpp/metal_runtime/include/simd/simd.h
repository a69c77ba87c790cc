#pragma once
namespace simd {
struct alignas(16) float4x4 {
    float m[16];
};
}  // namespace simd
