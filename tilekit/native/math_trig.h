// Trigonometric functions and their inverses of f32 and f64, the same bits from every compiler. Arguments of any size
// are reduced rightly: three-part pi/2 up to 2^20, beyond it the needed bits of 2/pi (Payne and Hanek).
#ifndef TILEKIT_NATIVE_MATH_TRIG_H
#define TILEKIT_NATIVE_MATH_TRIG_H
#include "math_exp.h"

namespace tk {

constexpr f64 kPio2Hi = 0x1.921fb54442d18p+0, kPio2Lo = 0x1.1a62633145c07p-54, kTwoOverPi = 0x1.45f306dc9c883p-1;

// x = quadrant * pi/2 + hi + lo, with |hi| <= pi/4 or hardly more.
struct Reduced { f64 hi, lo; i32 quadrant; };

// 2/pi in binary after 64 zero bits.
TK_TABLE u64 kTwoOverPiBits[21] = {
    0,
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull, 0xf0cfbc209af4361dull};

// Reduction of |x| >= 2^20. The product of x's significand with 192 bits of 2/pi, those above weight 2 left out (they
// are multiples of whole turns), gives the quadrant in its top two bits and the fraction below to more than 128.
TK_COLD Reduced reduce_large(f64 x)
{
    if (!(x - x == 0)) return {quiet_nan(), 0.0, 0};
    const Parts p = parts(x);
    const int at = p.exponent + 62, word = at >> 6, shift = at & 63;
    u64 bits[3];
    for (int i = 0; i < 3; ++i)
        bits[i] = kTwoOverPiBits[word + i] << shift | (shift ? kTwoOverPiBits[word + i + 1] >> (64 - shift) : 0);
    const U128 low = mul_wide(p.significand, bits[2]), mid = mul_wide(p.significand, bits[1]);
    const u64 r2 = low.lo, r1 = mid.lo + low.hi;
    const u64 r0 = p.significand * bits[0] + mid.hi + (r1 < mid.lo ? 1u : 0u);
    u64 f0 = r0 << 2 | r1 >> 62, f1 = r1 << 2 | r2 >> 62;
    const bool up = f0 >> 63;  // the fraction is at least one half: take it as negative of the next quadrant
    i32 quadrant = (i32)(r0 >> 62) + (up ? 1 : 0);
    if (up) {
        f0 = ~f0;
        f1 = ~f1;
    }
    const f64 c0 = (f64)(f0 >> 11) * 0x1p-53, c1 = (f64)((f0 & 0x7ff) << 42 | f1 >> 22) * 0x1p-106;
    const Pair f = quick_sum(c0, c1);
    const Pair r = mul_pair({f.hi, f.lo + (f64)(f1 & 0x3fffff) * 0x1p-128}, {kPio2Hi, kPio2Lo});
    const bool negative = up != (x < 0);
    if (x < 0) quadrant = -quadrant;
    return {negative ? -r.hi : r.hi, negative ? -r.lo : r.lo, quadrant};
}
TK_FN Reduced reduce(f64 x)
{
    if (!(x < 0x1p20 && x > -0x1p20)) return reduce_large(x);
    const f64 n = rint_ieee(x * kTwoOverPi);
    // 33 bits each, so that n times them is exact.
    const f64 r = fma_ieee(-n, 0x1.921fb544p+0, x);
    const Pair s = two_sum(r, -n * 0x1.0b4611a6p-34), t = two_sum(s.hi, -n * 0x1.3198a2ep-69);
    const Pair v = quick_sum(t.hi, fma_ieee(-n, 0x1.b839a252049c1p-104, s.lo + t.lo));
    return {v.hi, v.lo, (i32)n};
}
// sin and cos of hi + lo within pi/4.
TK_FN f64 sin_kernel(f64 hi, f64 lo)
{
    const f64 z = hi * hi;
    return hi + fma_ieee(hi * z, poly_sin(z), lo * fma_ieee(z, -0.5, 1.0));
}
TK_FN f64 cos_kernel(f64 hi, f64 lo)
{
    const f64 z = hi * hi, h = 0.5 * z, w = 1.0 - h;
    return w + (((1.0 - w) - h) + fma_ieee(z * z, poly_cos(z), -hi * lo));
}
// Sine, cosine, tangent. f64: sin and cos within 1 ulp, tan within 3; f32 within 1 ulp; for every finite x.
TK_FN f64 sin(f64 x)
{
    const Reduced r = reduce(x);
    const f64 s = sin_kernel(r.hi, r.lo), c = cos_kernel(r.hi, r.lo);
    const f64 y = r.quadrant & 1 ? c : s;
    return x == 0 ? x : (r.quadrant & 2 ? -y : y);
}
TK_FN f64 cos(f64 x)
{
    const Reduced r = reduce(x);
    const f64 s = sin_kernel(r.hi, r.lo), c = cos_kernel(r.hi, r.lo);
    const f64 y = r.quadrant & 1 ? s : c;
    return (r.quadrant + 1) & 2 ? -y : y;
}
TK_FN f64 tan(f64 x)
{
    const Reduced r = reduce(x);
    const f64 s = sin_kernel(r.hi, r.lo), c = cos_kernel(r.hi, r.lo);
    const bool odd = r.quadrant & 1;
    const f64 y = (odd ? -c : s) / (odd ? s : c);
    return x == 0 ? x : y;
}

// As reduce, to f64 accuracy only and so without lo: enough for f32.
TK_FN Reduced reduce_short(f64 x)
{
    if (!(x < 0x1p28 && x > -0x1p28)) return reduce_large(x);
    const f64 n = rint_ieee(x * kTwoOverPi);
    return {fma_ieee(-n, kPio2Lo, fma_ieee(-n, kPio2Hi, x)), 0.0, (i32)n};
}
struct SinCos { f64 sin, cos; };
TK_FN SinCos sincos_short(f64 r)
{
    const f64 z = r * r;
    return {fma_ieee(r * z, poly_sin_short(z), r), fma_ieee(z * z, poly_cos_short(z), fma_ieee(z, -0.5, 1.0))};
}
TK_FN f32 sin(f32 x)
{
    const Reduced r = reduce_short((f64)x);
    const SinCos v = sincos_short(r.hi);
    const f64 y = r.quadrant & 1 ? v.cos : v.sin;
    return x == 0 ? x : (f32)(r.quadrant & 2 ? -y : y);
}
TK_FN f32 cos(f32 x)
{
    const Reduced r = reduce_short((f64)x);
    const SinCos v = sincos_short(r.hi);
    const f64 y = r.quadrant & 1 ? v.sin : v.cos;
    return (f32)((r.quadrant + 1) & 2 ? -y : y);
}
TK_FN f32 tan(f32 x)
{
    const Reduced r = reduce_short((f64)x);
    const SinCos v = sincos_short(r.hi);
    const bool odd = r.quadrant & 1;
    return x == 0 ? x : (f32)((odd ? -v.cos : v.sin) / (odd ? v.sin : v.cos));
}

// Inverse sine and cosine of x limited to [-1, 1]. f64 within 2 ulp.
TK_LONG f64 asin(f64 x)
{
    const f64 a = copysign(x, 1.0) < 1.0 ? copysign(x, 1.0) : 1.0;
    const bool small = a <= 0.5;
    const f64 z = small ? a * a : 0.5 - 0.5 * a, t = small ? a : sqrt_ieee(z);
    const f64 p = t * z * poly_asin(z);
    const f64 y = small ? t + p : kPio2Hi - (2.0 * (t + p) - kPio2Lo);
    return x == x ? copysign(y, x) : quiet_nan();
}
TK_LONG f64 acos(f64 x)
{
    const f64 a = copysign(x, 1.0) < 1.0 ? copysign(x, 1.0) : 1.0;
    const bool small = a <= 0.5;
    const f64 z = small ? a * a : 0.5 - 0.5 * a, t = small ? x : sqrt_ieee(z);
    const f64 p = t * z * poly_asin(z);
    const f64 middle = kPio2Hi - (t + (p - kPio2Lo));
    const f64 outer = x > 0 ? 2.0 * (t + p) : 2.0 * (kPio2Hi - (t + (p - kPio2Lo)));
    return x == x ? (small ? middle : outer) : quiet_nan();
}
// Inverse tangent. f64 within 2 ulp. atan(a) = atan(c) + atan((a - c) / (1 + a c)) with the nearest of five c.
TK_LONG f64 atan(f64 x)
{
    const f64 a = copysign(x, 1.0);
    f64 num = -1.0, den = a, hi = kPio2Hi, lo = kPio2Lo;
    if (a < 0x1.38p+1) { num = a - 1.5; den = 1.0 + 1.5 * a; hi = 0x1.f730bd281f69bp-1; lo = 0x1.007887af0cbbdp-56; }
    if (a < 0x1.3p+0) { num = a - 1.0; den = a + 1.0; hi = 0x1.921fb54442d18p-1; lo = 0x1.1a62633145c07p-55; }
    if (a < 0x1.6p-1) { num = 2.0 * a - 1.0; den = 2.0 + a; hi = 0x1.dac670561bb4fp-2; lo = 0x1.a2b7f222f65e2p-56; }
    if (a < 0x1.cp-2) { num = a; den = 1.0; hi = 0.0; lo = 0.0; }
    const f64 t = num / den, z = t * t;
    const f64 y = hi + (t + fma_ieee(t * z, poly_atan(z), lo));
    return x != x ? x : copysign(y, x);
}
// The angle of the point (x, y), all cases as C's atan2. f64 within 3 ulp.
TK_LONG f64 atan2(f64 y, f64 x)
{
    const f64 ax = copysign(x, 1.0), ay = copysign(y, 1.0);
    const bool same = (ax == infinity() && ay == infinity()) || (ax == 0 && ay == 0);
    const f64 q = same ? (ax == 0 ? 0.0 : 1.0) : ay / ax;
    const f64 t = atan(q);
    const bool left = bit_cast<u64>(x) >> 63 && q != infinity();  // on the y axis t is half of pi from both sides
    const f64 r = left ? 2.0 * kPio2Hi - (t - 2.0 * kPio2Lo) : t;
    return x != x || y != y ? quiet_nan() : copysign(r, y);
}

}  // namespace tk
#endif
