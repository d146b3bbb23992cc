// exp, exp2, log, tanh and erf of f32 on GPUs: branch-free, from FMAs and the instructions of approx.h. The errors hold for
// every f32, if those instructions are as far off as the PTX ISA allows; results are the same in every run.
#ifndef TILEKIT_NATIVE_MATH_GPU_H
#define TILEKIT_NATIVE_MATH_GPU_H
#include "approx.h"
#include "math_poly.h"

#ifdef TK_CUDA
namespace tk {

// e^x within 3 ulp, as 2^(x log2(e) - k) 2^k. The exponent k is limited to what a normal number has; what is beyond is left
// to the first factor, so that the product overflows, or is rounded to a subnormal number, once.
TK_FN f32 exp(f32 x)
{
    const f32 place = fma_unit(x, 0x1.75b598p-8f, 0x1.fdf9eep-2f);     // (k + 126) / 253 before it is rounded
    const f32 shifted = fma_ieee(place, 253.0f, 0x1.800002p+23f);      // its lowest bits are k + 127
    const f32 k = shifted - 0x1.8000fep+23f;
    const f32 rest = fma_ieee(x, 0x1.4ae0cp-26f, fma_ieee(x, 0x1.715476p+0f, -k));
    return approx_exp2(rest) * bit_cast<f32>(bit_cast<u32>(shifted) << 23);
}
// 2^x within 3 ulp.
TK_FN f32 exp2(f32 x)
{
    const bool tiny = x < -126.0f;
    const f32 y = approx_exp2(tiny ? x + 24.0f : x);
    return tiny ? y * 0x1p-24f : y;
}
// ln x within 3 ulp.
TK_FN f32 log(f32 x)
{
    const bool tiny = x < 0x1p-126f;
    const u32 bits = bit_cast<u32>(tiny ? x * 0x1p23f : x), k = (bits - 0x3f2aaaabu) & 0xff800000u;
    const f32 f = bit_cast<f32>(bits - k) - 1.0f;                      // in [-1/3, 1/3]
    const f32 n = fma_ieee((f32)(i32)k, 0x1p-23f, tiny ? -23.0f : 0.0f);
    const f32 y = fma_ieee(n, 0x1.62e43p-1f, fma_ieee(f * f, poly_log1pf(f), f));
    const f32 infinity = bit_cast<f32>(0x7f800000u);
    const f32 known = bit_cast<u32>(x) < 0x7f800000u ? y : fma_ieee(x, infinity, infinity);  // infinity; NaN below zero
    return x == 0 ? -infinity : known;
}
// tanh x within 8 ulp.
TK_FN f32 tanh(f32 x)
{
    const f32 a = copysign(x, 1.0f), z = x * x;
    const f32 small = fma_ieee(a * z, poly_tanhf_near(z), a);
    const f32 large = fma_ieee(-2.0f, approx_reciprocal(approx_exp2(a * 0x1.715476p+1f) + 1.0f), 1.0f);
    return copysign(a < 0.55f ? small : large, x);
}
// The error function within 8 ulp.
TK_FN f32 erf(f32 x)
{
    const f32 a = copysign(x, 1.0f);
    const f32 small = fma_ieee(a, poly_erff_near(x * x), a), large = 1.0f - approx_exp2(poly_log2_erfcf(a));
    return copysign(a < 0.92f ? small : large, x);
}

}  // namespace tk
#endif
#endif
