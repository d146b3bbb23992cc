// Arithmetic, comparison, bit and selection functions of scalars, with one meaning on every device.
#ifndef TILEKIT_NATIVE_SCALAR_H
#define TILEKIT_NATIVE_SCALAR_H
#include "cast.h"
#include "fma.h"

namespace tk {

// a + b, a - b, a * b: integers wrap modulo 2^n, f16 and bf16 are computed in f32 and rounded once.
template <class T> TK_FN T add(T a, T b) { return narrow<T>(widen(a) + widen(b)); }
template <class T> TK_FN T sub(T a, T b) { return narrow<T>(widen(a) - widen(b)); }
template <class T> TK_FN T mul(T a, T b) { return narrow<T>(widen(a) * widen(b)); }

// -a: integers wrap, floats flip the sign also of zero and NaN.
template <class T> TK_FN T neg(T a)
{
    if constexpr (is_half<T>) return T{(u16)(a.bits ^ 0x8000u)};
    else if constexpr (Num<T>::is_float) return -a;
    else return narrow<T>((compute_t<T>)0 - widen(a));
}

// a * b + c rounded once, of f16 and bf16: by CUDA's instruction, else through f64, where a * b is exact and the sum is
// rounded to odd.
template <class T> TK_FN T fma_half(T a, T b, T c)
{
#ifdef TK_CUDA
    if constexpr (is_same<T, f16>::value) {
        u16 r;
        asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
        return f16{(u16)((r & 0x7fffu) > 0x7c00u ? 0x7e00u : r)};
    }
#if __CUDA_ARCH__ >= 800
    if constexpr (is_same<T, bf16>::value) {
        u16 r;
        asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(r) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
        return bf16{(u16)((r & 0x7fffu) > 0x7f80u ? 0x7fc0u : r)};
    }
#endif
#endif
    return cast<T>(add_odd(to_f64(a) * to_f64(b), to_f64(c)));
}

// a * b + c rounded once: f32 and f64 by one FMA, f16 and bf16 by fma_half(); integers wrap.
template <class T> TK_FN T fma(T a, T b, T c)
{
    if constexpr (is_half<T>) return fma_half(a, b, c);
    else if constexpr (Num<T>::is_float) return fma_ieee(a, b, c);
    else return narrow<T>(widen(a) * widen(b) + widen(c));
}

// Integer division without traps: by zero gives quotient and remainder 0, and the least value by -1 wraps.
template <class T> TK_FN T int_quotient(T a, T b)
{
    const bool zero = b == 0, minus_one = Num<T>::is_signed && b == (T)-1;
    const T safe = zero || minus_one ? (T)1 : b;
    const T q = (T)(a / safe);
    return zero ? (T)0 : (minus_one ? neg(a) : q);
}
template <class T> TK_FN T int_remainder(T a, T b)
{
    const bool trivial = b == 0 || (Num<T>::is_signed && b == (T)-1);
    const T safe = trivial ? (T)1 : b;
    return (T)(a % safe);
}

// x, or the largest i64 where it is more.
TK_FN i64 saturated(u64 x) { return x >> 63 ? (i64)(~0ull >> 1) : (i64)x; }

// a / b: integers truncate and never trap, floats are IEEE.
template <class T> TK_FN T div(T a, T b)
{
    if constexpr (is_same<T, bool>::value) return a && b;
    else if constexpr (Num<T>::is_int) return int_quotient(a, b);
    else return narrow<T>(widen(a) / widen(b));
}

// The quotient rounded down: integers exactly and without traps, floats floor(a / b) with the quotient rounded first.
template <class T> TK_FN T floordiv(T a, T b)
{
    if constexpr (is_same<T, bool>::value) return a && b;
    else if constexpr (Num<T>::is_int) {
        const T q = int_quotient(a, b), r = int_remainder(a, b);
        return b != 0 && r != 0 && ((r < 0) != (b < 0)) ? (T)(q - 1) : q;
    }
    else return narrow<T>(floor_ieee(widen(div(a, b))));
}

// The remainder of a / b truncated; it has the sign of a. Floats are exact as C's fmod; by integer zero it is 0.
template <class T> TK_FN T mod(T a, T b)
{
    if constexpr (is_same<T, bool>::value) return false;
    else if constexpr (Num<T>::is_int) return int_remainder(a, b);
    else return narrow<T>(fmod_exact(widen(a), widen(b)));
}

// Comparisons, IEEE for floats: any of them with a NaN is false, except ne.
template <class T> TK_FN conditional_t<is_half<T>, f32, T> comparable(T x)
{
    if constexpr (is_half<T>) return to_f32_number(x);
    else return x;
}
template <class T> TK_FN bool eq(T a, T b) { return comparable(a) == comparable(b); }
template <class T> TK_FN bool ne(T a, T b) { return comparable(a) != comparable(b); }
template <class T> TK_FN bool lt(T a, T b) { return comparable(a) < comparable(b); }
template <class T> TK_FN bool le(T a, T b) { return comparable(a) <= comparable(b); }
template <class T> TK_FN bool gt(T a, T b) { return comparable(a) > comparable(b); }
template <class T> TK_FN bool ge(T a, T b) { return comparable(a) >= comparable(b); }

// Bitwise operations of integers and bools; bit_not of a bool is logical.
template <class T> TK_FN T bit_and(T a, T b) { return narrow<T>(widen(a) & widen(b)); }
template <class T> TK_FN T bit_or(T a, T b) { return narrow<T>(widen(a) | widen(b)); }
template <class T> TK_FN T bit_xor(T a, T b) { return narrow<T>(widen(a) ^ widen(b)); }
template <class T> TK_FN T bit_not(T a)
{
    if constexpr (is_same<T, bool>::value) return !a;
    else return narrow<T>(~widen(a));
}

// Shifts by any count: as if bit by bit, so a count of the width or more (or a negative one, read as unsigned) gives 0,
// or the sign in a right shift of a signed value.
template <class T> TK_FN T shl(T a, T count)
{
    const bool over = (u64)count >= (u64)Num<T>::bits;
    const compute_t<T> shifted = widen(a) << (over ? 0 : (int)count);
    return over ? (T)0 : narrow<T>(shifted);
}
template <class T> TK_FN T shr(T a, T count)
{
    const bool over = (u64)count >= (u64)Num<T>::bits;
    if constexpr (Num<T>::is_signed) return (T)(a >> (over ? Num<T>::bits - 1 : (int)count));
    else return over ? (T)0 : (T)(a >> (int)count);
}

// The smaller and the larger value, whatever the order of the operands: a NaN operand yields the other one, and -0 is
// smaller than +0.
template <class T> TK_FN T min(T a, T b)
{
    if constexpr (is_half<T>) return narrow<T>(min(widen(a), widen(b)));
    else if constexpr (Num<T>::is_float) {
        const T equal = bit_cast<T>((bits_t<T>)(bit_cast<bits_t<T>>(a) | bit_cast<bits_t<T>>(b)));
        const T ordered = a < b ? a : (a > b ? b : equal);
        return a != a ? b : (b != b ? a : ordered);
    }
    else return b < a ? b : a;
}
template <class T> TK_FN T max(T a, T b)
{
    if constexpr (is_half<T>) return narrow<T>(max(widen(a), widen(b)));
    else if constexpr (Num<T>::is_float) {
        const T equal = bit_cast<T>((bits_t<T>)(bit_cast<bits_t<T>>(a) & bit_cast<bits_t<T>>(b)));
        const T ordered = a > b ? a : (a < b ? b : equal);
        return a != a ? b : (b != b ? a : ordered);
    }
    else return a < b ? b : a;
}
// x limited to [lo, hi] as min(max(lo, x), hi); a NaN x gives lo.
template <class T> TK_FN T clamp(T x, T lo, T hi) { return min(max(lo, x), hi); }

// |x|: integers wrap for the least value, floats clear the sign bit.
template <class T> TK_FN T abs(T x)
{
    if constexpr (is_half<T>) return T{(u16)(x.bits & 0x7fffu)};
    else if constexpr (Num<T>::is_float) return bit_cast<T>((bits_t<T>)(bit_cast<bits_t<T>>(x) & (~(bits_t<T>)0 >> 1)));
    else if constexpr (Num<T>::is_signed) return x < 0 ? neg(x) : x;
    else return x;
}
// -1 if x < 0, else 1 (also for zero and NaN).
template <class T> TK_FN T sign(T x) { return lt(x, cast<T>(0)) ? cast<T>(-1) : cast<T>(1); }
// 1 if x < 0, else 0.
template <class T> TK_FN T step(T x) { return lt(x, cast<T>(0)) ? cast<T>(1) : cast<T>(0); }
// 0 if x == 0, else 1.
template <class T> TK_FN T nonzero(T x) { return eq(x, cast<T>(0)) ? cast<T>(0) : cast<T>(1); }

// a if cond is nonzero, else b. Both are evaluated.
template <class C, class T> TK_FN T where(C cond, T a, T b) { return cast<bool>(cond) ? a : b; }
// x == 0.
template <class T> TK_FN bool logical_not(T x) { return !cast<bool>(x); }

// How many integers range(start, stop, step) has: none where the step is zero.
template <class T> TK_FN u64 range_length(T start, T stop, T step)
{
    if (step > 0) return start < stop ? ((u64)stop - (u64)start - 1) / (u64)step + 1 : 0;
    if (step < 0) return start > stop ? ((u64)start - (u64)stop - 1) / (0 - (u64)step) + 1 : 0;
    return 0;
}

}  // namespace tk
#endif
