// What every dtype is (Num<T>), and cast<T>(x) between all of them.
#ifndef TILEKIT_NATIVE_CAST_H
#define TILEKIT_NATIVE_CAST_H
#include "half.h"

namespace tk {

// Num<T>: the type that arithmetic on T is done in, and T's limits if it is an integer. Integer arithmetic is done in
// an unsigned type of at least 32 bits, where it wraps without undefined behaviour and narrows modulo 2^n.
template <class T> struct Num;
template <class T, class C, bool F, bool S, int B> struct NumBase {
    typedef C compute;
    static constexpr bool is_float = F, is_int = !F && B > 1, is_signed = S;
    static constexpr int bits = B;
};
template <> struct Num<bool> : NumBase<bool, u32, false, false, 1> {};
template <> struct Num<i8> : NumBase<i8, u32, false, true, 8> {};
template <> struct Num<i16> : NumBase<i16, u32, false, true, 16> {};
template <> struct Num<i32> : NumBase<i32, u32, false, true, 32> {};
template <> struct Num<i64> : NumBase<i64, u64, false, true, 64> {};
template <> struct Num<u8> : NumBase<u8, u32, false, false, 8> {};
template <> struct Num<u16> : NumBase<u16, u32, false, false, 16> {};
template <> struct Num<u32> : NumBase<u32, u32, false, false, 32> {};
template <> struct Num<u64> : NumBase<u64, u64, false, false, 64> {};
template <> struct Num<f16> : NumBase<f16, f32, true, true, 16> {};
template <> struct Num<bf16> : NumBase<bf16, f32, true, true, 16> {};
template <> struct Num<f32> : NumBase<f32, f32, true, true, 32> {};
template <> struct Num<f64> : NumBase<f64, f64, true, true, 64> {};
template <class T> using compute_t = typename Num<T>::compute;

template <class T> constexpr bool is_half = is_same<T, f16>::value || is_same<T, bf16>::value;

// The bits of a float as an unsigned integer.
template <class T> using bits_t = conditional_t<sizeof(T) == 8, u64, conditional_t<sizeof(T) == 4, u32, u16>>;

// The magnitude of x with the sign of y.
template <class T> TK_FN T copysign(T x, T y)
{
    constexpr bits_t<T> low = (bits_t<T>)((bits_t<T>)~(bits_t<T>)0 >> 1);
    return bit_cast<T>((bits_t<T>)((bit_cast<bits_t<T>>(x) & low) | (bit_cast<bits_t<T>>(y) & (bits_t<T>)~low)));
}

// The largest and the smallest value of an integer type.
template <class T> TK_FN T int_max()
{
    constexpr u64 all = ~0ull >> (64 - Num<T>::bits);
    return (T)(Num<T>::is_signed ? all >> 1 : all);
}
template <class T> TK_FN T int_min() { return Num<T>::is_signed ? (T)(-(i64)int_max<T>() - 1) : (T)0; }

// x truncated to an integer type; values beyond its range give its nearest limit and NaN gives 0, as PTX cvt.rzi.
template <class T, class F> TK_FN T float_to_int(F x)
{
    // 2^bits is exact in f32 and f64 where the limit itself may not be.
    const F above = (F)(1ull << (Num<T>::bits - 1)) * (Num<T>::is_signed ? (F)1 : (F)2);
    const bool high = x >= above, low = Num<T>::is_signed ? x < -above : x <= (F)-1;
    const bool inside = !high && !low && x == x;
    const T middle = (T)(conditional_t<(Num<T>::bits < 32), i32, T>)(inside ? x : (F)0);
    return high ? int_max<T>() : (low ? int_min<T>() : middle);
}

// The value in the type its arithmetic is done in: f16 and bf16 as f32, integers wrapped unsigned.
template <class T> TK_FN compute_t<T> widen(T x)
{
    if constexpr (is_half<T>) return to_f32_number(x);
    else return (compute_t<T>)x;
}
// A result of arithmetic brought back to T: rounded once, wrapped, or for bool `!= 0`.
template <class T> TK_FN T narrow(compute_t<T> x)
{
    if constexpr (is_same<T, f16>::value) return to_f16(x);
    else if constexpr (is_same<T, bf16>::value) return to_bf16(x);
    else if constexpr (is_same<T, bool>::value) return x != 0;
    else return (T)x;
}

// x as a To. Floats round to nearest once; float to integer truncates and saturates, NaN gives 0; integers wrap modulo
// 2^n; anything to bool is `x != 0` (so NaN gives true).
template <class To, class From> TK_FN To cast(From x)
{
    if constexpr (is_same<To, From>::value) return x;
    else if constexpr (is_half<From>) return cast<To>(to_f32(x));
    else if constexpr (is_same<To, bool>::value) return x != (From)0;
    else if constexpr (is_half<To>) {
        typedef conditional_t<Num<From>::is_float, From, conditional_t<Num<From>::bits == 64, From, i64>> Wide;
        if constexpr (is_same<To, f16>::value) return to_f16((Wide)x);
        else return to_bf16((Wide)x);
    }
    else if constexpr (Num<From>::is_float && !Num<To>::is_float) return float_to_int<To, From>(x);
    else return (To)x;
}

}  // namespace tk
#endif
