// A number of 11 bits, as float16 rounds it, in the place of CUDA's type.
#pragma once
#include <cmath>

struct __half {
    float value = 0.0f;
    __half() = default;
    explicit __half(float number)
    {
        int exponent;
        const float fraction = std::frexp(number, &exponent);
        value = std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11);
    }
    explicit operator float() const { return value; }
};
