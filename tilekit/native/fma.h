// IEEE building blocks: fused multiply-add, square root, rounding to integers, exact remainder. Each is one
// instruction where the target has it, and integer code with the same result where it has not.
#ifndef TILEKIT_NATIVE_FMA_H
#define TILEKIT_NATIVE_FMA_H
#include "cast.h"

namespace tk {

// a + b rounded to odd: the exact sum if f64 holds it, else the neighbour whose last bit is 1.
TK_FN f64 add_odd(f64 a, f64 b)
{
    const f64 s = a + b, t = s - a;
    const f64 error = (a - (s - t)) + (b - t);
    const u64 bits = bit_cast<u64>(s);
    // One ulp towards zero if the exact sum is nearer to zero than s.
    const u64 down = (error < 0) == (s > 0) ? 1u : 0u;
    const bool inexact = error != 0 && error == error;  // NaN: s is not finite
    return bit_cast<f64>(inexact && !(bits & 1) ? bits - down + (down ? 0u : 1u) : bits);
}

// Rounded product and sum of 64-bit significands, for targets without an FMA instruction.
struct U128 { u64 hi, lo; };
TK_FN U128 mul_wide(u64 a, u64 b)
{
    const u64 a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    const u64 low = a0 * b0, mid = a1 * b0 + (low >> 32), mid2 = a0 * b1 + (mid & 0xffffffffu);
    return {a1 * b1 + (mid >> 32) + (mid2 >> 32), (mid2 << 32) | (low & 0xffffffffu)};
}
TK_FN U128 shift_right_sticky(U128 v, int n)
{
    if (n <= 0) return v;
    if (n >= 128) return {0, (v.hi | v.lo) ? 1u : 0u};
    const u64 lost = n >= 64 ? v.lo | (n > 64 ? v.hi << (128 - n) : 0) : v.lo << (64 - n);
    const U128 r = n >= 64 ? U128{0, n > 64 ? v.hi >> (n - 64) : v.hi} : U128{v.hi >> n, v.hi << (64 - n) | v.lo >> n};
    return {r.hi, r.lo | (lost ? 1u : 0u)};
}
TK_FN int leading_zeros(u64 v)
{
    int n = 0;
    for (int s = 32; s; s >>= 1)
        if (!(v >> (64 - s))) { n += s; v <<= s; }
    return v ? n : 64;
}
// A nonzero finite |x| as significand * 2^exponent with the significand's bit 52 set.
struct Parts { u64 significand; int exponent; };
TK_FN Parts parts(f64 x)
{
    const u64 bits = bit_cast<u64>(x) & 0x7fffffffffffffffull;
    const int e = (int)(bits >> 52);
    if (e) return {(bits & 0xfffffffffffffull) | 0x10000000000000ull, e - 1075};
    const int shift = leading_zeros(bits) - 11;
    return {bits << shift, -1074 - shift};
}
// hi:lo * 2^exponent rounded to nearest even; lo's last bit may be sticky.
TK_FN f64 round_parts(U128 v, int exponent, bool negative)
{
    const int lz = v.hi ? leading_zeros(v.hi) : 64 + leading_zeros(v.lo);
    int drop = 128 - 53 - lz;                                   // bits below the 53 kept ones
    if (exponent + drop < -1074) drop = -1074 - exponent;        // subnormal: keep fewer
    u64 kept;
    if (drop > 0) {
        const U128 r = shift_right_sticky(v, drop - 2 > 0 ? drop - 2 : 0);
        const u64 tail = drop >= 2 ? r.lo & 3u : (r.lo & 1u) << 1;
        kept = drop >= 2 ? (r.hi << 62) | (r.lo >> 2) : (r.hi << 63) | (r.lo >> 1);
        kept += tail > 2 || (tail == 2 && (kept & 1)) ? 1u : 0u;
    } else {
        kept = v.lo << -drop;
    }
    int e = exponent + drop + 1074;                              // kept * 2^(e - 1074)
    u64 bits;
    if (kept >> 53) { kept >>= 1; ++e; }
    if (kept >> 52) bits = e + 1 >= 2047 ? 0x7ff0000000000000ull : ((u64)(e + 1) << 52) | (kept & 0xfffffffffffffull);
    else bits = kept;
    return bit_cast<f64>(bits | (negative ? 0x8000000000000000ull : 0));
}
// Whether x is neither infinite nor NaN.
TK_FN bool is_finite(f64 x) { return (bit_cast<u64>(x) & 0x7ff0000000000000ull) != 0x7ff0000000000000ull; }
// significand * 2^exponent, of either sign; the significand's last bit may stand for all that is below it.
struct Wide { U128 significand; int exponent; bool negative; };
// a * b + c of finite numbers where a and b are not zero; a significand of 0 is a sum that is exactly zero.
TK_FN Wide fma_exact(f64 a, f64 b, f64 c)
{
    const bool sp = (bit_cast<u64>(a) ^ bit_cast<u64>(b)) >> 63, sc = bit_cast<u64>(c) >> 63;
    const Parts pa = parts(a), pb = parts(b);
    U128 p = mul_wide(pa.significand << 10, pb.significand << 9);  // bit 123 or 124 set: room for a carry
    int ep = pa.exponent + pb.exponent - 19;
    if (c == 0) return {p, ep, sp};
    const Parts pc = parts(c);
    U128 q = {pc.significand << 8, 0};                             // bit 124 set
    const int eq = pc.exponent - 72, d = ep - eq;
    if (d > 0) q = shift_right_sticky(q, d);
    else { p = shift_right_sticky(p, -d); ep = eq; }
    if (sp == sc) {
        const u64 lo = p.lo + q.lo;
        return {{p.hi + q.hi + (lo < p.lo ? 1u : 0u), lo}, ep, sp};
    }
    const bool p_less = p.hi < q.hi || (p.hi == q.hi && p.lo < q.lo);
    const U128 big = p_less ? q : p, small = p_less ? p : q;
    return {{big.hi - small.hi - (big.lo < small.lo ? 1u : 0u), big.lo - small.lo}, ep, p_less ? sc : sp};
}
// a * b + c rounded once, in integers.
TK_COLD f64 fma_soft(f64 a, f64 b, f64 c)
{
    const bool finite_ab = is_finite(a) && is_finite(b);
    if (finite_ab && !is_finite(c)) return c;
    if (!finite_ab || a == 0 || b == 0) return a * b + c;
    const Wide r = fma_exact(a, b, c);
    return r.significand.hi | r.significand.lo ? round_parts(r.significand, r.exponent, r.negative) : 0.0;
}
// a * b + c rounded once, through f64: the product is exact, the sum rounded to odd.
TK_FN f32 fma_soft(f32 a, f32 b, f32 c) { return (f32)add_odd((f64)a * (f64)b, (f64)c); }

// a * b + c rounded once.
TK_FN f32 fma_ieee(f32 a, f32 b, f32 c)
{
#if defined(TK_CUDA)
    return __fmaf_rn(a, b, c);
#elif TK_HAS_FMA
    return __builtin_fmaf(a, b, c);
#else
    return fma_soft(a, b, c);
#endif
}
TK_FN f64 fma_ieee(f64 a, f64 b, f64 c)
{
#if defined(TK_CUDA)
    return __fma_rn(a, b, c);
#elif TK_HAS_FMA
    return __builtin_fma(a, b, c);
#else
    return fma_soft(a, b, c);
#endif
}

#if defined(TK_CUDA)
// The square root, correctly rounded.
TK_FN f32 sqrt_ieee(f32 x) { return __fsqrt_rn(x); }
TK_FN f64 sqrt_ieee(f64 x) { return __dsqrt_rn(x); }
#else
TK_FN f32 sqrt_ieee(f32 x) { return __builtin_sqrtf(x); }
TK_FN f64 sqrt_ieee(f64 x) { return __builtin_sqrt(x); }
#endif

// x to the nearest integer, ties to even: adding 2^(significand bits) rounds there, in the nearest mode.
template <class T> TK_FN T rint_ieee(T x)
{
    constexpr T big = sizeof(T) == 8 ? (T)0x1p52 : (T)0x1p23;
    const T a = copysign(x, (T)1), r = (a + big) - big;
    return a < big ? copysign(r, x) : x;
}
// x rounded towards zero, down and up; zero keeps its sign.
template <class T> TK_FN T trunc_ieee(T x)
{
    const T a = copysign(x, (T)1), r = rint_ieee(a);
    return copysign(r > a ? r - (T)1 : r, x);
}
template <class T> TK_FN T floor_ieee(T x)
{
    const T r = rint_ieee(x);
    return r > x ? r - (T)1 : r;
}
template <class T> TK_FN T ceil_ieee(T x) { return -floor_ieee(-x); }

// |a| mod |b| for finite a and b with |a| >= |b| > 0, by long division of the significands.
TK_COLD f64 fmod_long(f64 a, f64 b)
{
    const Parts pa = parts(a), pb = parts(b);
    u64 r = pa.significand % pb.significand;
    int left = pa.exponent - pb.exponent;
    while (left > 0 && r) {
        const int n = left < 11 ? left : 11;
        r = (r << n) % pb.significand;
        left -= n;
    }
    if (!r) return 0.0;
    return round_parts({0, r}, pb.exponent, false);
}
// C's fmod, exactly: x - n*y with n = x / y truncated; sign of x; NaN if x is infinite or y is 0.
TK_FN f64 fmod_exact(f64 x, f64 y)
{
    const f64 a = x < 0 ? -x : x, b = y < 0 ? -y : y, q = a / b;
    f64 r = a;
    if (!(a <= 0x1.fffffffffffffp1023) || !(b > 0)) return bit_cast<f64>(0x7ff8000000000000ull);
    if (q < 0x1p52) {
        // The quotient is right or one too large, so the remainder is exact and at most once too small.
        r = fma_ieee(-trunc_ieee(q), b <= 0x1.fffffffffffffp1023 ? b : 0.0, a);
        r = r < 0 ? r + b : r;
    } else if (b <= 0x1.fffffffffffffp1023) {
        r = fmod_long(a, b);
    }
    return bit_cast<f64>(bit_cast<u64>(r) | (bit_cast<u64>(x) & 0x8000000000000000ull));
}
// Through f64, which holds both operands and the remainder.
TK_FN f32 fmod_exact(f32 x, f32 y) { return (f32)fmod_exact((f64)x, (f64)y); }

}  // namespace tk
#endif
