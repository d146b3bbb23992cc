// Atom cvt among floats and integers, in every rounding.
#ifndef TILEKIT_NATIVE_ATOM_CVT_H
#define TILEKIT_NATIVE_ATOM_CVT_H
#include "atom_fma.h"

namespace tk {
namespace atom {

constexpr bool to_integer(Round r) { return r == RNI || r == RZI || r == RMI || r == RPI; }

// x rounded to an integer, as a float; its sign stays.
template <Round R> TK_FN f64 integral(f64 x)
{
    const f64 r = R == RNI ? rint_ieee(x) : (R == RMI ? floor_ieee(x) : (R == RPI ? ceil_ieee(x) : trunc_ieee(x)));
    return copysign(r, x);
}

// A float of any type from an f64 that holds its value, or rounds once more to it.
template <class D, Round R, u32 F> TK_FN carrier<D> float_from(f64 x)
{
    if constexpr (is_same<D, F64>::value) return bit_cast<f64>(finish<F64, F>(bit_cast<u64>(x), x != x));
    else if constexpr (is_same<D, TF32>::value) {
        const u32 bits = finish<F32, F & ~(u32)SATFINITE>(round_bits<TF32, R>(x) << 13, x != x);
        const bool infinite = (bits & 0x7fffffffu) == 0x7f800000u;
        return (F & SATFINITE) != 0 && infinite ? bits - 0x2000u : bits;
    }
    else {
        u32 bits = round_bits<D, R>(x);
        if constexpr ((F & FTZ) != 0 && is_same<D, F32>::value)
            bits = is_tiny_once_rounded<F32, R>(x) ? bits & 0x80000000u : bits;
        return bit_cast<carrier<D>>(finish<D, F>((bits_of<D>)bits, x != x));
    }
}
// Limited to the type's range; NaN is 0, or the sign bit alone where either type has 64 bits.
template <class D, class A, Round R> TK_FN carrier<D> integer_from(f64 x)
{
    typedef carrier<D> T;
    constexpr bool wide = is_same<A, F64>::value || sizeof(T) == 8;
    const T r = float_to_int<T, f64>(integral<R>(x));
    return wide && x != x ? (T)((u64)1 << (8 * sizeof(T) - 1)) : r;
}
// An integer as an f64 in direction R, to odd where it is rounded again.
template <Round R, class T> TK_FN f64 f64_from(T v)
{
    if constexpr (sizeof(T) < 8) return (f64)v;
    else if constexpr (R == TO_ODD) return to_f64_odd(v);
    else if constexpr (R == RN) return (f64)v;
    else return v ? fma_wide<R>((f64)(v >> 32), 0x1p32, (f64)(u32)v) : 0.0;
}

// Whether NaN becomes the only one that D has, as .sat makes it zero; else a GPU does with its bits what follows.
template <class D, class A, Round R, u32 F> constexpr bool forgets_nan()
{
    constexpr bool same = is_same<A, D>::value && !to_integer(R);
    if constexpr ((F & SAT) != 0) return true;
    else if constexpr (is_same<A, F64>::value || is_same<D, F64>::value || is_same<D, TF32>::value) return false;
    else return (F & FTZ) != 0 || !is_same<D, F32>::value || !(same || is_same<A, BF16>::value);
}
// A NaN in another format: where either is f64 the sign stays, and of the payload what is there in both.
template <class D, class A, Round R, u32 F> TK_FN bits_of<D> nan_bits(carrier<A> a)
{
    constexpr bool moved = is_same<A, D>::value && !to_integer(R);  // not even made quiet
    const u64 bits = (F & FTZ) != 0 && is_same<A, F32>::value ? A::nan : (u64)bit_cast<bits_of<A>>(a);
    if constexpr (is_same<D, TF32>::value)
        return R == RNA ? ((u32)bits & 0xffffe000u) - ((F & SATFINITE) != 0 ? 0x2000u : 0u) : 0x7fffe000u;
    else if constexpr (moved && (F & FTZ) == 0) return (bits_of<D>)bits;
    else if constexpr (is_same<D, F32>::value && is_same<A, BF16>::value) return (u32)bits << 16;
    else {
        constexpr int more = D::digits - A::digits;
        const u64 payload = bits & (A::least_normal - 1), sign = bits & A::sign ? D::sign : 0;
        const u64 kept = more > 0 ? payload << (more > 0 ? more : 0) : payload >> (more > 0 ? 0 : -more);
        return (bits_of<D>)(sign | D::infinity | D::least_normal >> 1 | kept);
    }
}
template <class D, class A, Round R, u32 F> TK_FN carrier<D> float_to_float(carrier<A> a)
{
    // What is subnormal in f32 is flushed, but where the result is f16.
    constexpr bool flushes = is_same<A, F32>::value && !is_same<D, F16>::value;
    const carrier<A> given = flushes ? input<A, F>(a) : a;
    if constexpr (to_integer(R)) return float_from<D, RN, F>(integral<R>(as_f64<A>(given)));
    else if constexpr (is_same<A, F32>::value && sizeof(carrier<D>) == 2)
        return finish<D, F>((u16)round_bits_f32<D, R>(given), given != given);
    else return float_from<D, R, F>(as_f64<A>(given));
}

template <class D, class A, Round R, u32 F> TK_FN carrier<D> cvt(carrier<A> a)
{
    if constexpr (is_float<A> && is_float<D>) {
        const carrier<D> out = float_to_float<D, A, R, F>(a);
        if constexpr (forgets_nan<D, A, R, F>()) return out;
        else return is_nan<A>(a) ? bit_cast<carrier<D>>(nan_bits<D, A, R, F>(a)) : out;
    }
    else if constexpr (is_float<A>)
        return integer_from<D, A, R>(as_f64<A>(is_same<A, F32>::value ? input<A, F>(a) : a));
    else if constexpr (is_float<D>) return float_from<D, R, F>(f64_from<is_same<D, F64>::value ? R : TO_ODD>(a));
    else if constexpr ((F & SAT) != 0) {
        typedef carrier<D> T;
        const bool negative = Num<carrier<A>>::is_signed && (i64)a < 0;
        const bool high = !negative && (u64)a > (u64)int_max<T>(), low = negative && (i64)a < (i64)int_min<T>();
        return high ? int_max<T>() : (low ? int_min<T>() : (T)a);
    }
    else return (carrier<D>)a;
}
// Two values into one register; PTX names the one for the upper half first.
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> cvt(carrier<A> high, carrier<B> low)
{
    typedef typename D::part P;
    return join<D>(cvt<P, B, R, F>(low), cvt<P, A, R, F>(high));
}

}  // namespace atom
}  // namespace tk
#endif
