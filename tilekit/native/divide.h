// Quotients by a number that many elements are divided by, rounded as x / d is.
#ifndef TILEKIT_NATIVE_DIVIDE_H
#define TILEKIT_NATIVE_DIVIDE_H
#include "approx.h"
#include "cast.h"
#include "fma.h"

#ifdef TK_CUDA
namespace tk {

// Whether quotients are rounded to nearest, as they are unless NVRTC was asked for fast arithmetic.
#if defined(__CUDA_PREC_DIV) && !__CUDA_PREC_DIV
constexpr bool kExactQuotients = false;
#else
constexpr bool kExactQuotients = true;
#endif

// A divisor with its reciprocal. The remainder of x * r is exact where neither x nor the quotient are near the ends of the
// range, and corrects it: rounded to nearest for all significands (tests/native/test_divide.py). The form of the signs
// keeps that of a zero.
struct Divisor {
    f32 d, r;
    template <class T> TK_METHOD explicit Divisor(T by) : d(widen(by)), r(1.0f / d) {}
    TK_METHOD f32 under(f32 x) const
    {
        const f32 q = x * r;
        return kExactQuotients ? fma_ieee(-fma_ieee(q, d, -x), r, q) : q;
    }
    TK_METHOD bool is_plain() const { return !kExactQuotients || (d >= 0x1p-24f && d <= 0x1p24f); }
};

// What has been seen of the elements of a tile that are to be divided.
struct Dividends {
    f32 small = 0.0f, most = 0.0f;  // NaN or more than 0 if one is not plain; the largest size
    template <class T> TK_METHOD void add(T dividend)
    {
        const f32 size = fabsf(widen(dividend));
        small = fma_ieee(fma_unit(-size, 0x1p100f, 1.0f), size, small);  // the first factor is 0 from 2^-100 on
        most = fmaxf(most, size);
    }
    // Whether each is zero or from 2^-100 to 2^100.
    TK_METHOD bool are_plain() const { return !kExactQuotients || (small == 0.0f && most <= 0x1p100f); }
};

// x / d of plain numbers, and of any.
template <class T> TK_FN T quotient(T x, const Divisor& by) { return narrow<T>(by.under(widen(x))); }
TK_COLD f32 divide_any(f32 x, f32 d) { return x / d; }
template <class T> TK_FN T any_quotient(T x, const Divisor& by) { return narrow<T>(divide_any(widen(x), by.d)); }

}  // namespace tk
#endif
#endif
