// Every mathematical function, for f32, f64, f16 and bf16 (these two through f32, rounded once more). Only + - * /
// sqrt, FMA and integer operations: the same bits from every compiler. GPUs have their own exp, exp2, log, tanh and erf
// of f32 (math_gpu.h).
#ifndef TILEKIT_NATIVE_MATH_H
#define TILEKIT_NATIVE_MATH_H
#include "math_exp.h"
#include "math_trig.h"
#include "scalar.h"

namespace tk {

// The square root, correctly rounded; NaN below zero.
TK_FN f64 sqrt(f64 x) { return sqrt_ieee(x); }
TK_FN f32 sqrt(f32 x) { return sqrt_ieee(x); }
// 1 / sqrt(x). Within 1.5 ulp.
TK_FN f64 rsqrt(f64 x) { return 1.0 / sqrt_ieee(x); }
TK_FN f32 rsqrt(f32 x) { return 1.0f / sqrt_ieee(x); }

// The cube root. f64 within 1 ulp.
TK_LONG f64 cbrt(f64 x)
{
    const f64 a = copysign(x, 1.0);
    const bool tiny = a < 0x1p-1022;
    const u64 bits = bit_cast<u64>(tiny ? a * 0x1p54 : a);
    const i32 e = (i32)(bits >> 52) - 1023, third = (e + 3072) / 3 - 1024;     // rounded down
    const f64 m = bit_cast<f64>(bits - ((u64)(i64)(3 * third) << 52));         // in [1, 8)
    f64 y = bit_cast<f64>(bit_cast<u64>(m) / 3 + 0x2a9f789300000000ull);       // within 6 %
    for (int i = 0; i < 3; ++i) {                                              // Halley: cubic convergence
        const f64 c = y * y * y;
        y = y * ((c + 2.0 * m) / (2.0 * c + m));
    }
    const f64 s = y * y, s_lo = fma_ieee(y, y, -s);
    y -= (fma_ieee(s, y, -m) + s_lo * y) / (3.0 * s);
    y *= pow2(third - (tiny ? 18 : 0));
    return a > 0 && a < infinity() ? copysign(y, x) : x;
}

// erfc for y >= 0.74, as exp(-y^2) times a smooth function.
TK_FN f64 erfc_tail(f64 y)
{
    const f64 c = y < 28.0 ? y : 28.0, s = c * c;
    const f64 g = poly_erfcx((c - 4.0) / (c + 4.0)) / fma_ieee(2.0, c, 1.0);
    return exp_sum(-s, -fma_ieee(c, c, -s), 0) * g;
}
// The error function and its complement. erf within 2 ulp, erfc within 4.
TK_LONG f64 erf(f64 x)
{
    const f64 a = copysign(x, 1.0);
    const f64 y = a < 0.75 ? fma_ieee(a, poly_erf(a < 0.75 ? a * a : 0.0), a) : 1.0 - erfc_tail(a);
    return x != x ? x : copysign(y, x);
}
TK_LONG f64 erfc(f64 x)
{
    const f64 a = copysign(x, 1.0), z = a < 0.75 ? x * x : 0.0;
    const f64 tail = erfc_tail(a < 0.75 ? 0.75 : a);
    // Below 1/2 the sum x + x P is exact enough; above, 0.5 - (x - 0.5 + x P) keeps the bits.
    const f64 p = x * poly_erf(z);
    const f64 middle = x < 0.25 ? 1.0 - (x + p) : 0.5 - ((x - 0.5) + p);
    const f64 y = a < 0.75 ? middle : (x < 0 ? 2.0 - tail : tail);
    return x != x ? x : y;
}

// Rounding to integers, exact: down, up, towards zero, half away from zero, half to even; zeros keep their sign.
TK_FN f64 floor(f64 x) { return floor_ieee(x); }
TK_FN f32 floor(f32 x) { return floor_ieee(x); }
TK_FN f64 ceil(f64 x) { return ceil_ieee(x); }
TK_FN f32 ceil(f32 x) { return ceil_ieee(x); }
TK_FN f64 trunc(f64 x) { return trunc_ieee(x); }
TK_FN f32 trunc(f32 x) { return trunc_ieee(x); }
TK_FN f64 rint(f64 x) { return rint_ieee(x); }
TK_FN f32 rint(f32 x) { return rint_ieee(x); }
template <class T> TK_FN T round_half_away(T x)
{
    const T a = copysign(x, (T)1), t = trunc_ieee(a);
    return copysign(a - t >= (T)0.5 ? t + (T)1 : t, x);
}
TK_FN f64 round(f64 x) { return round_half_away(x); }
TK_FN f32 round(f32 x) { return round_half_away(x); }
// x - trunc(x), exact; of infinity NaN.
TK_FN f64 frac(f64 x) { return x - trunc_ieee(x); }
TK_FN f32 frac(f32 x) { return x - trunc_ieee(x); }

// Angles from radians to degrees and back, by one multiplication.
TK_FN f64 degrees(f64 x) { return x * 0x1.ca5dc1a63c1f8p+5; }
TK_FN f32 degrees(f32 x) { return x * 0x1.ca5dc2p+5f; }
TK_FN f64 radians(f64 x) { return x * 0x1.1df46a2529d39p-6; }
TK_FN f32 radians(f32 x) { return x * 0x1.1df46ap-6f; }

// Classification; integers are always finite.
template <class T> TK_FN bool isnan(T x) { return ne(x, x); }
template <class T> TK_FN bool isfinite(T x)
{
    if constexpr (Num<T>::is_float) return widen(x) - widen(x) == 0;
    else return true;
}
template <class T> TK_FN bool isinf(T x) { return !isfinite(x) && !isnan(x); }

// f32 functions with no version of their own are the f64 one rounded: within 0.51 ulp.
#define TK_F32_BY_F64(name) TK_FN f32 name(f32 x) { return (f32)name((f64)x); }
TK_F32_BY_F64(log2) TK_F32_BY_F64(log10) TK_F32_BY_F64(log1p) TK_F32_BY_F64(expm1) TK_F32_BY_F64(cbrt)
TK_F32_BY_F64(asin) TK_F32_BY_F64(acos) TK_F32_BY_F64(atan) TK_F32_BY_F64(sinh) TK_F32_BY_F64(cosh)
TK_F32_BY_F64(asinh) TK_F32_BY_F64(acosh) TK_F32_BY_F64(atanh) TK_F32_BY_F64(erfc)
#undef TK_F32_BY_F64
TK_FN f32 atan2(f32 y, f32 x) { return (f32)atan2((f64)y, (f64)x); }

// f16 and bf16: computed in f32 and rounded once more.
#define TK_HALF_BY_F32(name) \
    TK_FN f16 name(f16 x) { return to_f16(name(to_f32_number(x))); } \
    TK_FN bf16 name(bf16 x) { return to_bf16(name(to_f32_number(x))); }
TK_HALF_BY_F32(exp) TK_HALF_BY_F32(exp2) TK_HALF_BY_F32(log) TK_HALF_BY_F32(log2) TK_HALF_BY_F32(log10)
TK_HALF_BY_F32(log1p) TK_HALF_BY_F32(expm1) TK_HALF_BY_F32(sqrt) TK_HALF_BY_F32(rsqrt) TK_HALF_BY_F32(cbrt)
TK_HALF_BY_F32(sin) TK_HALF_BY_F32(cos) TK_HALF_BY_F32(tan) TK_HALF_BY_F32(asin) TK_HALF_BY_F32(acos)
TK_HALF_BY_F32(atan) TK_HALF_BY_F32(sinh) TK_HALF_BY_F32(cosh) TK_HALF_BY_F32(tanh) TK_HALF_BY_F32(asinh)
TK_HALF_BY_F32(acosh) TK_HALF_BY_F32(atanh) TK_HALF_BY_F32(erf) TK_HALF_BY_F32(erfc) TK_HALF_BY_F32(floor)
TK_HALF_BY_F32(ceil) TK_HALF_BY_F32(trunc) TK_HALF_BY_F32(rint) TK_HALF_BY_F32(round) TK_HALF_BY_F32(frac)
TK_HALF_BY_F32(degrees) TK_HALF_BY_F32(radians)
#undef TK_HALF_BY_F32
#define TK_HALF_BY_F32_2(name) \
    TK_FN f16 name(f16 x, f16 y) { return to_f16(name(to_f32_number(x), to_f32_number(y))); } \
    TK_FN bf16 name(bf16 x, bf16 y) { return to_bf16(name(to_f32_number(x), to_f32_number(y))); }
TK_HALF_BY_F32_2(pow) TK_HALF_BY_F32_2(atan2)
#undef TK_HALF_BY_F32_2

}  // namespace tk
#endif
