// Atoms that choose or move bits: min, max, abs, neg and mov, and the arithmetic of integers.
#ifndef TILEKIT_NATIVE_ATOM_SELECT_H
#define TILEKIT_NATIVE_ATOM_SELECT_H
#include "atom_base.h"
#include "scalar.h"

namespace tk {
namespace atom {

// a + b and a - b modulo 2^n, with .sat (of s32) limited to its range.
template <class T> TK_FN T limited(i64 x)
{
    const i64 high = (i64)int_max<T>(), low = (i64)int_min<T>();
    return (T)(x < low ? low : (x > high ? high : x));
}
template <class T, u32 F> TK_FN T add_integers(T a, T b)
{
    if constexpr ((F & SAT) != 0) return limited<T>((i64)a + (i64)b);
    else return tk::add(a, b);
}
template <class T, u32 F> TK_FN T sub_integers(T a, T b)
{
    if constexpr ((F & SAT) != 0) return limited<T>((i64)a - (i64)b);
    else return tk::sub(a, b);
}
// The upper half of a product, and all of it in a type twice as wide.
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> mul_hi(carrier<A> a, carrier<B> b)
{
    typedef carrier<D> T;
    constexpr int bits = 8 * (int)sizeof(T);
    if constexpr (bits < 64) return (T)(((i64)a * (i64)b) >> bits);
    else {
        u64 high = tk::mul_wide((u64)a, (u64)b).hi;
        if (Num<T>::is_signed) high -= ((i64)a < 0 ? (u64)b : 0) + ((i64)b < 0 ? (u64)a : 0);
        return (T)high;
    }
}
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> mul_wide(carrier<A> a, carrier<B> b)
{
    return (carrier<D>)((carrier<D>)a * (carrier<D>)b);
}

// Bits that order as signed integers like the numbers they stand for, -0 before +0.
template <class B> TK_FN auto ordered(B bits)
{
    typedef conditional_t<sizeof(B) == 8, i64, conditional_t<sizeof(B) == 4, i32, i16>> I;
    constexpr B low = (B)((B)~(B)0 >> 1);
    return (I)((I)bits < 0 ? (B)(bits ^ low) : bits);
}
// The lesser or the greater of two floats. A NaN gives way to a number, unless .NaN says that it wins.
template <class T, bool Least, u32 F> TK_FN carrier<T> extreme_float(carrier<T> a, carrier<T> b)
{
    typedef bits_of<T> B;
    constexpr B sign = (B)T::sign, low = (B)(sign - 1);
    B x = bit_cast<B>(input<T, F>(a)), y = bit_cast<B>(input<T, F>(b));
    const bool x_nan = is_nan<T>(a), y_nan = is_nan<T>(b);
    const B signs = (B)((x ^ y) & sign);
    if constexpr ((F & ABS) != 0) { x &= low; y &= low; }
    const bool first = Least ? ordered(x) < ordered(y) : ordered(x) > ordered(y);
    B out = x_nan ? y : (y_nan || first ? x : y);
    if constexpr ((F & XORSIGN) != 0) out = (B)((out & low) | signs);
    const bool nan = (F & NAN_WINS) != 0 ? x_nan || y_nan : x_nan && y_nan;
    return bit_cast<carrier<T>>(nan ? passed_on<T>(y) : out);
}
template <class T, bool Least, u32 F> TK_FN carrier<T> extreme(carrier<T> a, carrier<T> b)
{
    if constexpr (is_several<T>) {
        typedef typename T::part P;
        return join<T>(extreme<P, Least, F>(part<T>(a, 0), part<T>(b, 0)), extreme<P, Least, F>(part<T>(a, 1), part<T>(b, 1)));
    }
    else if constexpr (is_float<T>) return extreme_float<T, Least, F>(a, b);
    else {
        const carrier<T> r = Least ? tk::min(a, b) : tk::max(a, b);
        return (F & RELU) != 0 && r < (carrier<T>)1 ? (carrier<T>)0 : r;
    }
}
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> min(carrier<A> a, carrier<B> b)
{
    return extreme<D, true, F>(a, b);
}
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> max(carrier<A> a, carrier<B> b)
{
    return extreme<D, false, F>(a, b);
}
template <class D, class A, class B, class C, Round R, u32 F> TK_FN carrier<D> min(carrier<A> a, carrier<B> b, carrier<C> c)
{
    return extreme<D, true, F>(extreme<D, true, F>(a, b), c);
}
template <class D, class A, class B, class C, Round R, u32 F> TK_FN carrier<D> max(carrier<A> a, carrier<B> b, carrier<C> c)
{
    return extreme<D, false, F>(extreme<D, false, F>(a, b), c);
}

// |x| and -x. The sign of a NaN stays.
template <class T, u32 F> TK_FN carrier<T> with_sign(carrier<T> x, bool negated)
{
    typedef bits_of<T> B;
    const B bits = bit_cast<B>(input<T, F>(x)), sign = (B)T::sign;
    const B out = negated ? (B)(bits ^ sign) : (B)(bits & (B)~sign);
    return bit_cast<carrier<T>>(is_nan<T>(x) ? passed_on<T>(bits) : out);
}
template <class D, class A, Round R, u32 F> TK_FN carrier<D> abs(carrier<A> x)
{
    if constexpr (is_several<D>) {
        typedef typename D::part P;
        return join<D>(abs<P, P, R, F>(part<D>(x, 0)), abs<P, P, R, F>(part<D>(x, 1)));
    }
    else if constexpr (is_float<D>) return with_sign<D, F>(x, false);
    else return tk::abs(x);
}
template <class D, class A, Round R, u32 F> TK_FN carrier<D> neg(carrier<A> x)
{
    if constexpr (is_several<D>) {
        typedef typename D::part P;
        return join<D>(neg<P, P, R, F>(part<D>(x, 0)), neg<P, P, R, F>(part<D>(x, 1)));
    }
    else if constexpr (is_float<D>) return with_sign<D, F>(x, true);
    else return tk::neg(x);
}

}  // namespace atom
}  // namespace tk
#endif
