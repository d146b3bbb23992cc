// Exponentials, logarithms, powers and hyperbolic functions of f64, and those of f32 that are computed through f64, from
// + - * / sqrt, FMA and integer operations only: the same bits from every compiler, and on every device.
#ifndef TILEKIT_NATIVE_MATH_EXP_H
#define TILEKIT_NATIVE_MATH_EXP_H
#include "math_cpu.h"
#include "math_gpu.h"
#include "math_poly.h"

namespace tk {

constexpr f64 kLn2Hi = 0x1.62e42feep-1, kLn2Lo = 0x1.a39ef35793c76p-33;  // Hi has 32 bits: k * Hi is exact
constexpr f64 kLog2E = 0x1.71547652b82fep+0, kLn2 = 0x1.62e42fefa39efp-1, kLn2Tail = 0x1.abc9e3b39803fp-56;
TK_FN f64 infinity() { return bit_cast<f64>(0x7ff0000000000000ull); }
TK_FN f64 quiet_nan() { return bit_cast<f64>(0x7ff8000000000000ull); }

// hi + lo with |lo| at most half an ulp of hi.
struct Pair { f64 hi, lo; };
TK_FN Pair two_sum(f64 a, f64 b)
{
    const f64 s = a + b, t = s - a;
    return {s, (a - (s - t)) + (b - t)};
}
// As two_sum, for |a| >= |b| or a == 0.
TK_FN Pair quick_sum(f64 a, f64 b)
{
    const f64 s = a + b;
    return {s, b - (s - a)};
}
TK_FN Pair mul_pair(Pair a, Pair b)
{
    const f64 p = a.hi * b.hi;
    return quick_sum(p, fma_ieee(a.hi, b.hi, -p) + fma_ieee(a.hi, b.lo, a.lo * b.hi));
}

// 2^k for a normal result, and x * 2^k in two steps, so that only the second rounds (-2040 < k < 2040).
TK_FN f64 pow2(i32 k) { return bit_cast<f64>((u64)(i64)(k + 1023) << 52); }
TK_FN f64 scale(f64 x, i32 k)
{
    const i32 half = k >> 1;
    return x * pow2(half) * pow2(k - half);
}

// e^(r + lo) * 2^k for |r| <= ln(2) / 2 and |lo| < 2^-40.
TK_FN f64 exp_reduced(f64 r, f64 lo, i32 k)
{
    const f64 p = r * r * poly_exp(r);
    return scale(1.0 + (r + fma_ieee(lo, 1.0 + (r + p), p)), k);
}
// e^(x + lo) * 2^k, also where e^x alone overflows; for |lo| at most an ulp of x or so.
TK_FN f64 exp_sum(f64 x, f64 lo, i32 k)
{
    const f64 low = x > -760.0 ? x : -760.0, c = low < 720.0 ? low : 720.0;
    const f64 n = rint_ieee(c * kLog2E);
    const f64 r0 = fma_ieee(-n, kLn2Hi, c), r = fma_ieee(-n, kLn2Lo, r0);
    const f64 tail = fma_ieee(-n, kLn2Lo, r0 - r) + lo;
    const f64 y = exp_reduced(r, tail, (i32)n + k);
    return x != x ? x : y;
}

// e^x. f64 within 1 ulp.
TK_FN f64 exp(f64 x) { return exp_sum(x, 0.0, 0); }
// 2^x, exact at integers. f64 within 1 ulp.
TK_FN f64 exp2(f64 x)
{
    const f64 low = x > -1100.0 ? x : -1100.0, c = low < 1030.0 ? low : 1030.0;
    const f64 n = rint_ieee(c), f = c - n, r = f * kLn2;
    const f64 y = exp_reduced(r, fma_ieee(f, kLn2, -r) + f * kLn2Tail, (i32)n);
    return x != x ? x : y;
}
// e^x - 1 without cancellation. f64 within 2 ulp.
TK_LONG f64 expm1(f64 x)
{
    const f64 low = x > -60.0 ? x : -60.0, c = low < 720.0 ? low : 720.0;
    const f64 n = rint_ieee(c * kLog2E);
    const f64 r0 = fma_ieee(-n, kLn2Hi, c), r = fma_ieee(-n, kLn2Lo, r0);
    const f64 tail = fma_ieee(-n, kLn2Lo, r0 - r);
    const f64 p = fma_ieee(r * r, poly_exp(r), tail + tail * r);
    const i32 k = (i32)n;
    const f64 one = k < 64 ? 1.0 - pow2(k < 64 ? -k : 0) : 1.0;  // 2^k (1 - 2^-k + (e^r - 1))
    const Pair s = two_sum(one, r);
    const f64 y = scale(s.hi + (s.lo + p), k);
    return x != x || x == 0 ? x : y;
}

// A positive finite x as m * 2^k with m in [sqrt(1/2), sqrt(2)).
struct Split { f64 m; i32 k; };
TK_FN Split split(f64 x)
{
    const bool tiny = x < 0x1p-1022;
    const u64 bits = bit_cast<u64>(tiny ? x * 0x1p54 : x);
    const i32 k = (i32)((bits - 0x3fe6a09e667f3bcdull) >> 52 & 0xfff);
    const i32 exponent = k >= 0x800 ? k - 0x1000 : k;
    return {bit_cast<f64>(bits - ((u64)(i64)exponent << 52)), exponent - (tiny ? 54 : 0)};
}
// What log gives outside the positive finite numbers: y inside, else -inf at 0, inf at inf, NaN.
TK_FN f64 log_domain(f64 x, f64 y)
{
    const f64 outside = x == 0 ? -infinity() : (x > 0 ? x : quiet_nan());
    return x > 0 && x < infinity() ? y : outside;
}
// ln x. f64 within 1 ulp.
TK_FN f64 log(f64 x)
{
    const Split v = split(x);
    const f64 f = v.m - 1.0, s = f / (2.0 + f), z = s * s, h = 0.5 * f * f, k = (f64)v.k;
    const f64 t = fma_ieee(k, kLn2Lo, s * fma_ieee(z, poly_log(z), h));
    return log_domain(x, fma_ieee(k, kLn2Hi, f - (h - t)));
}
// ln m for m from split(), to about 2^-68 relative.
TK_FN Pair log_mantissa(f64 m)
{
    const f64 f = m - 1.0;
    const Pair d = two_sum(1.0, m);
    const f64 s = f / d.hi, s_lo = (fma_ieee(-s, d.hi, f) - s * d.lo) / d.hi;
    const f64 z = s * s, z_lo = fma_ieee(s, s, -z) + 2.0 * s * s_lo;
    const f64 third = 0x1.5555555555555p-1, third_lo = 0x1.5555555555555p-55;  // two thirds
    const f64 t = third * z;
    const f64 t_lo = fma_ieee(third, z, -t) + fma_ieee(third, z_lo, third_lo * z) + z * z * poly_log5(z);
    const Pair u = quick_sum(2.0, t);
    return mul_pair({s, s_lo}, {u.hi, u.lo + t_lo});
}
// ln x for positive finite x, to about 2^-66 relative.
TK_FN Pair log_pair(f64 x)
{
    const Split v = split(x);
    const Pair m = log_mantissa(v.m);
    const Pair s = two_sum((f64)v.k * kLn2Hi, m.hi);
    return quick_sum(s.hi, s.lo + fma_ieee((f64)v.k, kLn2Lo, m.lo));
}
// log2 x, exact at powers of two. f64 within 1 ulp.
TK_LONG f64 log2(f64 x)
{
    const Split v = split(x);
    const Pair l = mul_pair(log_mantissa(v.m), {kLog2E, 0x1.777d0ffda0d24p-56});
    const Pair s = two_sum((f64)v.k, l.hi);
    return log_domain(x, s.hi + (s.lo + l.lo));
}
// log10 x. f64 within 1 ulp.
TK_LONG f64 log10(f64 x)
{
    const Pair l = mul_pair(log_pair(x), {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57});
    return log_domain(x, l.hi + l.lo);
}
// ln(1 + x) without cancellation. f64 within 2 ulp.
TK_LONG f64 log1p(f64 x)
{
    const Pair u = two_sum(1.0, x);
    const f64 y = log(u.hi) + (u.hi > 0 && u.hi < infinity() ? u.lo / u.hi : 0.0);
    return bit_cast<u64>(x) << 1 < 0x3c80000000000000ull << 1 || x != x ? x : y;
}

// x^y from r = |x|^y computed for finite nonzero x: signs, zeros, infinities and NaN as C's pow.
TK_FN f64 pow_domain(f64 x, f64 y, f64 r)
{
    const f64 ax = x < 0 ? -x : x, ay = y < 0 ? -y : y;
    const bool integer = trunc_ieee(y) == y;
    const bool odd = integer && ay < 0x1p53 && 2.0 * trunc_ieee(0.5 * y) != y;
    f64 v = r;
    if (ax == 0 || ax == infinity()) v = (ax == 0) == (y < 0) ? infinity() : 0.0;
    else if (ay == infinity()) v = ax == 1.0 ? 1.0 : ((ax > 1.0) == (y > 0) ? infinity() : 0.0);
    else if (x < 0 && !integer) v = quiet_nan();
    v = odd ? copysign(v, x) : v;
    v = x != x || y != y ? quiet_nan() : v;
    return x == 1.0 || y == 0 ? 1.0 : v;
}
// x^y, the special cases of C's pow. f64 within 1 ulp, f32 within 1 ulp.
TK_LONG f64 pow(f64 x, f64 y)
{
    const Pair l = log_pair(x < 0 ? -x : x);
    const f64 e = y * l.hi;
    const f64 lo = e < 1000.0 && e > -1000.0 ? fma_ieee(y, l.hi, -e) + y * l.lo : 0.0;
    return pow_domain(x, y, exp_sum(e, lo, 0));
}
TK_LONG f32 pow(f32 x, f32 y)
{
    const f64 wide = (f64)x;
    return (f32)pow_domain(wide, (f64)y, exp((f64)y * log(wide < 0 ? -wide : wide)));
}

// Hyperbolic functions. f64 within 3 ulp.
TK_LONG f64 sinh(f64 x)
{
    const f64 a = copysign(x, 1.0), e = expm1(a < 40.0 ? a : 40.0);
    const f64 y = a < 40.0 ? 0.5 * (e + e / (e + 1.0)) : exp_sum(a, 0.0, -1);
    return x != x ? x : copysign(y, x);
}
TK_LONG f64 cosh(f64 x)
{
    const f64 h = exp_sum(copysign(x, 1.0), 0.0, -1);
    return h + 0.25 / h;
}
TK_LONG f64 tanh(f64 x)
{
    const f64 t = expm1(-2.0 * copysign(x, 1.0));
    return x != x ? x : copysign(t / (2.0 + t), x);
}
TK_LONG f64 asinh(f64 x)
{
    const f64 a = copysign(x, 1.0), c = a < 0x1p28 ? a : 0x1p28, s = c * c;
    const f64 y = a < 0x1p28 ? log1p(c + s / (1.0 + sqrt_ieee(1.0 + s))) : log(a) + kLn2;
    return x != x ? x : copysign(y, x);
}
TK_LONG f64 acosh(f64 x)
{
    const f64 t = x - 1.0;
    const f64 y = x < 0x1p28 ? log1p(t + sqrt_ieee(t * (t + 2.0))) : log(x) + kLn2;
    return x >= 1.0 ? y : quiet_nan();
}
TK_LONG f64 atanh(f64 x)
{
    const f64 a = copysign(x, 1.0);
    const f64 y = 0.5 * log1p(2.0 * a / (1.0 - a));
    return x != x ? x : (a > 1.0 ? quiet_nan() : copysign(y, x));
}

}  // namespace tk
#endif
