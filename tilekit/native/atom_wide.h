// f64 in any rounding, by AVX-512's instructions where they are, else in integers; and its NaNs.
#ifndef TILEKIT_NATIVE_ATOM_WIDE_H
#define TILEKIT_NATIVE_ATOM_WIDE_H
#include "atom_base.h"

// TK_ATOM_PORTABLE leaves the instructions out, so that tests reach the code that does without.
#if defined(__AVX512F__) && !defined(TK_CUDA) && !defined(TK_ATOM_PORTABLE)
#define TK_EMBEDDED_ROUNDING 1
#else
#define TK_EMBEDDED_ROUNDING 0
#endif

namespace tk {
namespace atom {

// A NaN result of f64 arithmetic: the first of a, b and c that is one, made quiet, else the default. f64 alone keeps
// payloads. Callers give operands in the order in which a GPU asks them.
TK_FN f64 propagated(f64 r, f64 a, f64 b, f64 c)
{
    const f64 from = a != a ? a : (b != b ? b : c);
    const u64 quiet = from != from ? passed_on<F64>(bit_cast<u64>(from)) : F64::nan;
    return r != r ? bit_cast<f64>(quiet) : r;
}

// v * 2^exponent in direction R; v's last bit may stand for all that is below it.
template <Round R> TK_FN f64 round_wide(U128 v, int exponent, bool negative)
{
    const int zeros = v.hi ? leading_zeros(v.hi) : 64 + leading_zeros(v.lo), normal = 75 - zeros;
    const int drop = exponent + normal < -1074 ? -1074 - exponent : normal;
    u64 kept = v.lo, rest = 0;
    if (drop > 0) {
        // Two bits more than are kept: the first that is dropped, and whether there are others.
        const U128 r = drop > 2 ? shift_right_sticky(v, drop - 2) : U128{v.hi << (2 - drop) | (v.lo >> 1) >> (61 + drop), v.lo << (2 - drop)};
        kept = (r.hi << 62) | (r.lo >> 2);
        rest = r.lo & 3u;
    } else {
        kept = v.lo << -drop;
    }
    kept = R == TO_ODD ? kept | (rest ? 1u : 0u) : kept + rounds_up<R>(kept, rest, 2, negative);
    int above = exponent + drop + 1074;
    if (kept >> 53) { kept >>= 1; ++above; }
    u64 bits = kept;
    if (kept >> 52) bits = ((u64)(above + 1) << 52) | (kept & 0xfffffffffffffull);
    if (kept >> 52 && above + 1 >= 2047) bits = overflows<R>(negative) ? F64::infinity : F64::infinity - 1;
    return bit_cast<f64>(bits | (negative ? F64::sign : 0));
}
// A sum that is exactly zero, of terms with the signs `x` and `y`.
template <Round R> TK_FN f64 zero_sum(bool x, bool y)
{
    return (R == RM ? x || y : x && y) ? -0.0 : 0.0;
}
// a * b + c rounded once, in integers. TO_ODD keeps the sign of every result, however small.
template <Round R> TK_COLD f64 fma_integers(f64 a, f64 b, f64 c)
{
    const bool finite_ab = is_finite(a) && is_finite(b);
    if (!finite_ab || !is_finite(c)) return finite_ab ? c : a * b + c;
    if (a == 0 || b == 0) return c == 0 ? zero_sum<R>((bit_cast<u64>(a) ^ bit_cast<u64>(b)) >> 63, bit_cast<u64>(c) >> 63) : c;
    const Wide r = fma_exact(a, b, c);
    if (!(r.significand.hi | r.significand.lo)) return R == RM ? -0.0 : 0.0;
    return round_wide<R>(r.significand, r.exponent, r.negative);
}
// r, which is the nearest f64 to r + rest, made the one in direction R.
template <Round R> TK_FN f64 toward_wide(f64 r, f64 rest)
{
    const u64 bits = bit_cast<u64>(r), one = (i64)bits < 0 ? ~0ull : 1ull;
    const bool above = rest > 0, below = rest < 0;
    if constexpr (R == RZ) return bit_cast<f64>(bits - ((i64)bits < 0 ? above : below ? 1u : 0u));
    else if constexpr (R == RP) return bit_cast<f64>(above ? bits + one : bits);
    else if constexpr (R == RM) return bit_cast<f64>(below ? bits - one : bits);
    else return r;
}

// a * b + c whose product and addend are in the middle of the range: from the nearest and the sign of what it misses,
// which three sums without error give (Boldo and Muller).
template <Round R> TK_FN f64 fma_middle(f64 a, f64 b, f64 c, f64 p)
{
    const f64 r = fma_ieee(a, b, c), low = fma_ieee(a, b, -p);
    const f64 s = c + low, t = s - c, s_lost = (c - (s - t)) + (low - t);
    const f64 u = p + s, v = u - p, u_lost = (p - (u - v)) + (s - v);
    const f64 out = toward_wide<R>(r, ((u - r) + u_lost) + s_lost);
    return R == RM && r == 0 ? -0.0 : out;
}
template <Round R> TK_FN f64 fma_wide(f64 a, f64 b, f64 c)
{
    if constexpr (R == RN) return fma_ieee(a, b, c);
#if TK_EMBEDDED_ROUNDING
    if constexpr (R == RZ || R == RM || R == RP) {
        typedef f64 Pair __attribute__((vector_size(16)));
        constexpr int mode = 8 | (R == RM ? 1 : (R == RP ? 2 : 3));
        return __builtin_ia32_vfmaddsd3_mask(Pair{a, 0}, Pair{b, 0}, Pair{c, 0}, 1, mode)[0];
    }
#endif
#if TK_HAS_FMA
    const f64 p = a * b, size = p < 0 ? -p : p, addend = c < 0 ? -c : c;
    if (size > 0x1p-900 && size < 0x1p1000 && addend < 0x1p1000) return fma_middle<R>(a, b, c, p);
#endif
    return fma_integers<R>(a, b, c);
}

}  // namespace atom
}  // namespace tk
#endif
