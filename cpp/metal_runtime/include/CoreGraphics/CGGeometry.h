#pragma once
typedef double CGFloat;
struct CGSize {
    CGFloat width, height;
};
