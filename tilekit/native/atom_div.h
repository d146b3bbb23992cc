// Atoms div, rcp and sqrt with a rounding: the nearest result, and then from the exact sign of what it misses.
#ifndef TILEKIT_NATIVE_ATOM_DIV_H
#define TILEKIT_NATIVE_ATOM_DIV_H
#include "atom_fma.h"

namespace tk {
namespace atom {

// With the sign of x where `negated`, else of -x.
TK_FN f64 negated_if(bool negated, f64 x) { return negated ? -x : x; }

template <Round R, u32 F> TK_FN f32 quotient(f32 a, f32 b)
{
    const f32 x = input<F32, F>(a), y = input<F32, F>(b), r = x / y;
    const f64 rest = negated_if(y < 0, (f64)x - (f64)r * (f64)y);  // r * y is exact
    f32 out = toward<R>(r, rest);
    if constexpr ((F & FTZ) != 0) {
        // Before rounding: also where the nearest is the least normal number and the quotient is below it.
        const u32 size = bit_cast<u32>(r) & 0x7fffffffu, least = (u32)F32::least_normal;
        const bool inwards = r < 0 ? rest > 0 : rest < 0;
        out = size < least || (size == least && inwards) ? bit_cast<f32>(bit_cast<u32>(r) & 0x80000000u) : out;
    }
    return finished<F32, F>(out);
}
// a - r * b with the right sign, where r is next to a / b.
TK_FN f64 missed(f64 r, f64 b, f64 a)
{
#if TK_HAS_FMA
    const f64 size = a < 0 ? -a : a;
    if (size > 0x1p-900 && size < 0x1p1000) return fma_ieee(-r, b, a);  // too large to underflow
#endif
    return fma_integers<TO_ODD>(-r, b, a);
}
template <Round R> TK_FN f64 quotient_wide(f64 a, f64 b)
{
    const f64 r = a / b;
    if constexpr (R == RN) return r;
    else return toward_wide<R>(r, negated_if(b < 0, missed(r, b, a)));
}

template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> div(carrier<A> a, carrier<B> b)
{
    if constexpr (is_same<D, F64>::value) return propagated(quotient_wide<R>(a, b), a, b, b);
    else if constexpr (is_float<D>) return quotient<R, F>(a, b);
    else return b == 0 ? (carrier<D>)~(carrier<D>)0 : tk::div(a, b);
}
template <class D, class A, Round R, u32 F> TK_FN carrier<D> rcp(carrier<A> x)
{
    if constexpr (is_same<D, F64>::value) return propagated(quotient_wide<R>(1.0, x), x, x, x);
    else return quotient<R, F>(1.0f, x);
}
template <class D, class A, Round R, u32 F> TK_FN carrier<D> sqrt(carrier<A> a)
{
    const carrier<A> x = input<A, F>(a), r = sqrt_ieee(x);
    if constexpr (is_same<D, F64>::value) {
        if constexpr (R == RN) return propagated(r, x, x, x);
        else return propagated(toward_wide<R>(r, missed(r, r, x)), x, x, x);
    }
    else return finished<F32, F>(toward<R>(r, (f64)x - (f64)r * (f64)r));
}

}  // namespace atom
}  // namespace tk
#endif
