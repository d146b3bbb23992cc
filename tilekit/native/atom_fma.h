// Atoms fma, add, sub and mul of floats: one rounding, in any of PTX's directions, and PTX's NaNs.
#ifndef TILEKIT_NATIVE_ATOM_FMA_H
#define TILEKIT_NATIVE_ATOM_FMA_H
#include "atom_select.h"
#include "atom_wide.h"

namespace tk {
namespace atom {

// r, which is the nearest f32 to r + rest, made the one in direction R. Only the sign of `rest` counts, and NaN is none.
template <Round R> TK_FN f32 toward(f32 r, f64 rest)
{
    const f32 side = (f32)(rest * 0x1p600);  // as f32, so that all that follows is in lanes of 32 bits
    const u32 bits = bit_cast<u32>(r), one = (i32)bits < 0 ? ~0u : 1u;
    if constexpr (R == RZ) {
        const u32 inwards = (bit_cast<u32>(side) ^ bits) >> 31 & (u32)(side != 0 && side == side);
        return bit_cast<f32>(bits - inwards);
    }
    else if constexpr (R == RP) return bit_cast<f32>(side > 0 ? bits + one : bits);
    else if constexpr (R == RM) return bit_cast<f32>(side < 0 ? bits - one : bits);
    else return r;
}
// The sum of x and y, of which r is the nearest f32, in direction R; .ftz decides before rounding.
template <Round R, u32 F> TK_FN f32 sum(f32 r, f64 x, f64 y)
{
    const f64 s = x + y, t = s - x, error = (x - (s - t)) + (y - t);
    f32 out = toward<R>(r, (s - (f64)r) + error);
    if constexpr (R == RM) {
        const u32 signs = (u32)((bit_cast<u64>(x) | bit_cast<u64>(y)) >> 32) & 0x80000000u;
        out = s == 0 ? bit_cast<f32>(signs) : out;
    }
    // Sums of numbers that are not subnormal are exact where they are, with any rounding.
    if constexpr ((F & FTZ) != 0) out = flush<F32>(out);
    return finished<F32, F>(out);
}
template <Round R, u32 F> TK_FN f32 product(f32 a, f32 b)
{
    const f32 x = input<F32, F>(a), y = input<F32, F>(b), r = x * y;
    const f64 exact = (f64)x * (f64)y;
    f32 out = R == RN ? r : toward<R>(r, exact - (f64)r);
    if constexpr ((F & FTZ) != 0) {
        out = is_tiny<F32>(exact) ? bit_cast<f32>(bit_cast<u32>(r) & 0x80000000u) : out;
    }
    return finished<F32, F>(out);
}

// A sum or product of 16-bit floats, rounded to odd. f16's are exact in f32 but for that; bf16's have f64's exponents.
template <class T, Round R, u32 F> TK_FN u16 narrowed(f32 x, bool tiny)
{
    u32 bits = round_bits_f32<T, R>(x);
    if constexpr ((F & FTZ) != 0 && is_same<T, F16>::value) bits = tiny ? bits & 0x8000u : bits;
    return finish<T, F>((u16)bits, x != x);
}
// x * y + z; of add the product is exact, so that .ftz may decide as in fma.
template <class T, Round R, u32 F> TK_FN u16 sum_half(f32 x, f32 y, f32 z)
{
    if constexpr (is_same<T, F16>::value) {
        const f32 s = add_odd_f32(x * y, z);
        return narrowed<T, R, F>(s, is_tiny_once_rounded<F16, R>(s));
    }
    else return narrowed<T, R, F>(to_f32_odd(add_odd((f64)x * (f64)y, (f64)z)), false);
}
template <class T, u32 F> TK_FN bool out_of_bounds(u16 a, u16 b)
{
    return (F & OOB) != 0 && ((a & 0x7fffu) == 0x7ff7u || (b & 0x7fffu) == 0x7ff7u);
}
template <class T, Round R, u32 F> TK_FN u16 fma_half(u16 a, u16 b, u16 c)
{
    const u16 r = sum_half<T, R, F>(as_f32<T>(input<T, F>(a)), as_f32<T>(input<T, F>(b)), as_f32<T>(input<T, F>(c)));
    return out_of_bounds<T, F>(a, b) ? (u16)0 : r;
}

// is_tiny_once_rounded<F32, R>(x * y + z), of operands that are not subnormal.
template <Round R> TK_FN bool is_tiny_fma(f32 x, f32 y, f32 z)
{
    if constexpr (R == RN) {  // where it is about that small, 2^24 times as much is rounded alike and without subnormals
        const f32 scaled = fma_ieee(x * 0x1p24f, y, z * 0x1p24f);
        return scaled < 0x1p-102f && scaled > -0x1p-102f;
    }
    return is_tiny_once_rounded<F32, R>(add_odd((f64)x * (f64)y, (f64)z));
}
// Unlike add and mul, fma decides .ftz after rounding: a GPU keeps what is rounded up to the least normal number.
template <Round R, u32 F> TK_FN f32 fma_f32(f32 a, f32 b, f32 c)
{
    const f32 x = input<F32, F>(a), y = input<F32, F>(b), z = input<F32, F>(c), r = fma_ieee(x, y, z);
    if constexpr ((F & FTZ) != 0) {
        const f32 out = R == RN ? r : sum<R, 0>(r, (f64)x * (f64)y, (f64)z);
        const u32 bits = bit_cast<u32>(out);
        return finished<F32, F>(bit_cast<f32>(is_tiny_fma<R>(x, y, z) ? bits & 0x80000000u : bits));
    }
    else if constexpr (R == RN) return finished<F32, F>(r);
    else return sum<R, F>(r, (f64)x * (f64)y, (f64)z);
}
// fma: D = A * B + C. Operands of fewer bits than the result are widened exactly.
template <class D, class A, class B, class C, Round R, u32 F>
TK_FN carrier<D> fma(carrier<A> a, carrier<B> b, carrier<C> c)
{
    if constexpr (is_several<D>) {
        typedef typename D::part P;
        return join<D>(fma<P, typename A::part, typename B::part, typename C::part, R, F>(part<A>(a, 0), part<B>(b, 0), part<C>(c, 0)),
                       fma<P, typename A::part, typename B::part, typename C::part, R, F>(part<A>(a, 1), part<B>(b, 1), part<C>(c, 1)));
    }
    else if constexpr (is_same<D, F64>::value) return propagated(fma_wide<R>(a, b, c), b, c, a);
    else if constexpr (is_same<D, F32>::value) return fma_f32<R, F>(as_f32<A>(a), as_f32<B>(b), as_f32<C>(c));
    else return fma_half<D, R, F>(a, b, c);
}

// add: D = A + B. As for fma, f32 = f16 + f32 is exact but for the last rounding.
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> add_floats(carrier<A> a, carrier<B> b)
{
    if constexpr (is_same<D, F64>::value) {
        if constexpr (R == RN) return propagated(a + b, b, a, a);
        else return propagated(fma_wide<R>(a, 1.0, b), b, a, a);
    }
    else if constexpr (is_same<D, F32>::value) {
        const f32 x = input<F32, F>(as_f32<A>(a)), y = input<F32, F>(as_f32<B>(b));
        if constexpr (R == RN) return finished<F32, F>(input<F32, F>(x + y));
        else return sum<R, F>(x + y, (f64)x, (f64)y);
    }
    else return sum_half<D, R, F>(as_f32<D>(input<D, F>(a)), 1.0f, as_f32<D>(input<D, F>(b)));
}
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> mul_floats(carrier<A> a, carrier<B> b)
{
    if constexpr (is_same<D, F64>::value) {
        if constexpr (R == RN) return propagated(a * b, b, a, a);
        const u64 sign = (bit_cast<u64>(a) ^ bit_cast<u64>(b)) & F64::sign;
        return propagated(fma_wide<R>(a, b, bit_cast<f64>(sign)), b, a, a);
    }
    else if constexpr (is_same<D, F32>::value) return product<R, F>(as_f32<A>(a), as_f32<B>(b));
    else if constexpr (is_same<D, F16>::value) {
        const f32 exact = as_f32<D>(input<D, F>(a)) * as_f32<D>(input<D, F>(b));
        return narrowed<D, R, F>(exact, is_tiny<F16>(exact));
    }
    else return narrowed<D, R, F>(to_f32_odd(as_f64<D>(a) * as_f64<D>(b)), false);
}
// -x where x is a number; PTX's a - b is a + (-b), and a NaN stays as it is.
template <class T> TK_FN carrier<T> negative(carrier<T> x)
{
    const bits_of<T> bits = bit_cast<bits_of<T>>(x);
    return bit_cast<carrier<T>>((bits_of<T>)(is_nan<T>(x) ? bits : bits ^ (bits_of<T>)T::sign));
}

template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> add(carrier<A> a, carrier<B> b)
{
    if constexpr (is_several<D>) {
        typedef typename D::part P;
        return join<D>(add<P, typename A::part, typename B::part, R, F>(part<A>(a, 0), part<B>(b, 0)),
                       add<P, typename A::part, typename B::part, R, F>(part<A>(a, 1), part<B>(b, 1)));
    }
    else if constexpr (is_float<D>) return add_floats<D, A, B, R, F>(a, b);
    else return add_integers<carrier<D>, F>(a, b);
}
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> sub(carrier<A> a, carrier<B> b)
{
    if constexpr (is_several<D>) {
        typedef typename D::part P;
        return join<D>(sub<P, typename A::part, typename B::part, R, F>(part<A>(a, 0), part<B>(b, 0)),
                       sub<P, typename A::part, typename B::part, R, F>(part<A>(a, 1), part<B>(b, 1)));
    }
    else if constexpr (is_float<D>) return add_floats<D, A, B, R, F>(a, negative<B>(b));
    else return sub_integers<carrier<D>, F>(a, b);
}
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> mul(carrier<A> a, carrier<B> b)
{
    if constexpr (is_several<D>) {
        typedef typename D::part P;
        return join<D>(mul<P, typename A::part, typename B::part, R, F>(part<A>(a, 0), part<B>(b, 0)),
                       mul<P, typename A::part, typename B::part, R, F>(part<A>(a, 1), part<B>(b, 1)));
    }
    else if constexpr (is_float<D>) return mul_floats<D, A, B, R, F>(a, b);
    else return tk::mul(a, b);
}

}  // namespace atom
}  // namespace tk
#endif
