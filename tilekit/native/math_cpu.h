// exp, exp2, log, tanh and erf of f32 on the CPU, branch-free, so that loops vectorise: from + - * /, FMA and integer
// operations only, with the same bits from every compiler.
#ifndef TILEKIT_NATIVE_MATH_CPU_H
#define TILEKIT_NATIVE_MATH_CPU_H
#include "math_poly.h"

#ifndef TK_CUDA
namespace tk {

TK_FN f32 infinityf() { return bit_cast<f32>(0x7f800000u); }
TK_FN f32 quiet_nanf() { return bit_cast<f32>(0x7fc00000u); }

// x * 2^k in two steps, so that only the second rounds.
TK_FN f32 scale(f32 x, i32 k)
{
    const i32 half = k >> 1, rest = k - half;
    return x * bit_cast<f32>((half + 127) << 23) * bit_cast<f32>((rest + 127) << 23);
}

// e^x within 1 ulp.
TK_FN f32 exp(f32 x)
{
    const f32 low = x > -104.0f ? x : -104.0f, c = low < 89.0f ? low : 89.0f;
    const f32 n = rint_ieee(c * 0x1.715476p+0f);
    const f32 r = fma_ieee(-n, 0x1.7f7d1cp-20f, fma_ieee(-n, 0x1.62e4p-1f, c));
    const f32 y = scale(1.0f + fma_ieee(r * r, poly_expf(r), r), (i32)n);
    return x != x ? x : y;
}
// 2^x within 1 ulp, exact at integers.
TK_FN f32 exp2(f32 x)
{
    const f32 low = x > -152.0f ? x : -152.0f, c = low < 129.0f ? low : 129.0f;
    const f32 n = rint_ieee(c), f = c - n;
    const f32 y = scale(fma_ieee(f, poly_exp2f(f), 1.0f), (i32)n);
    return x != x ? x : y;
}
// ln x within 1 ulp.
TK_FN f32 log(f32 x)
{
    const bool tiny = x < 0x1p-126f;
    const i32 bits = bit_cast<i32>(tiny ? x * 0x1p25f : x);
    const i32 k = (i32)((u32)bits - 0x3f3504f3u) >> 23;
    const f32 m = bit_cast<f32>((u32)bits - ((u32)k << 23));
    const f32 f = m - 1.0f, s = f / (2.0f + f), z = s * s, h = 0.5f * f * f, n = (f32)(k - (tiny ? 25 : 0));
    const f32 t = fma_ieee(n, 0x1.7f7d1cp-20f, s * fma_ieee(z, poly_logf(z), h));
    const f32 y = fma_ieee(n, 0x1.62e4p-1f, f - (h - t));
    const f32 outside = x == 0 ? -infinityf() : (x > 0 ? x : quiet_nanf());
    return x > 0 && x < infinityf() ? y : outside;
}
// tanh x within 2 ulp.
TK_FN f32 tanh(f32 x)
{
    const f32 a = copysign(x, 1.0f), z = x * x;
    const f32 small = fma_ieee(a * z, poly_tanhf(z), a);
    const f32 large = 1.0f - 2.0f / (exp(2.0f * (a < 20.0f ? a : 20.0f)) + 1.0f);
    return x != x ? x : copysign(a < 0.625f ? small : large, x);
}
// The error function within 2 ulp.
TK_FN f32 erf(f32 x)
{
    const f32 a = copysign(x, 1.0f), c = a < 4.0f ? a : 4.0f, z = c * c;
    const f32 small = fma_ieee(c, poly_erff(z), c), large = 1.0f - exp(poly_log_erfcf(c));
    return x != x ? x : copysign(a < 0.92f ? small : large, x);
}

}  // namespace tk
#endif
#endif
