// What the atoms are made of: their types, roundings and modifiers, and the rounding of an f64 to any format. Code here
// counts on the state that kernels run in: to nearest, subnormals kept (FloatState). Other roundings are bits, not modes.
#ifndef TILEKIT_NATIVE_ATOM_BASE_H
#define TILEKIT_NATIVE_ATOM_BASE_H
#include "fma.h"

namespace tk {
namespace atom {

// As PTX spells them: to nearest even, zero, minus and plus infinity, nearest with ties away; with i to an integer.
// TO_ODD is for results that are rounded once more: truncated, with the last bit set if that lost something.
enum Round { RN, RZ, RM, RP, RNA, RNI, RZI, RMI, RPI, TO_ODD };
enum Modifier { FTZ = 1, SAT = 2, RELU = 4, OOB = 8, SATFINITE = 16, NAN_WINS = 32, XORSIGN = 64, ABS = 128 };

// The number of bits in the significand, the exponent of the least subnormal, infinity's bits and the only NaN.
template <class C, int Digits, int Low, u64 Infinity, u64 Nan> struct Format {
    typedef C carrier;
    static constexpr int digits = Digits, low = Low;
    static constexpr u64 infinity = Infinity, nan = Nan, sign = (u64)1 << (8 * sizeof(C) - 1);
    static constexpr u64 least_normal = (u64)1 << (Digits - 1);
    static constexpr u64 one = (Infinity >> 1) & ~(least_normal - 1);
};
struct F16 : Format<u16, 11, -24, 0x7c00, 0x7fff> {};
struct BF16 : Format<u16, 8, -133, 0x7f80, 0x7fff> {};
struct F32 : Format<f32, 24, -149, 0x7f800000, 0x7fffffff> {};
struct F64 : Format<f64, 53, -1074, 0x7ff0000000000000, 0xfff8000000000000> {};
// In the upper 19 bits of an f32.
struct TF32 : Format<u32, 11, -136, 0x3fc00, 0x3ffff> {};

// Several values in one register, the first one lowest.
template <class T, class C, int N> struct Several {
    typedef T part;
    typedef C carrier;
    static constexpr int count = N;
};
struct F16x2 : Several<F16, u32, 2> {};
struct BF16x2 : Several<BF16, u32, 2> {};
struct F32x2 : Several<F32, u64, 2> {};

template <class T> struct Plain { typedef T carrier; };
struct S8 : Plain<i8> {};
struct S16 : Plain<i16> {};
struct S32 : Plain<i32> {};
struct S64 : Plain<i64> {};
struct U8 : Plain<u8> {};
struct U16 : Plain<u16> {};
struct U32 : Plain<u32> {};
struct U64 : Plain<u64> {};
struct S16x2 : Several<S16, u32, 2> {};
struct U16x2 : Several<U16, u32, 2> {};

template <class T> using carrier = typename T::carrier;
template <class T> using bits_of = bits_t<carrier<T>>;

template <class T, class = void> constexpr bool is_several = false;
template <class T> constexpr bool is_several<T, conditional_t<true, void, typename T::part>> = true;
template <class T, class = void> constexpr bool is_float = false;
template <class T> constexpr bool is_float<T, conditional_t<(T::digits > 0), void, void>> = true;

// Value `i` of a register, and a register of two.
template <class T> TK_FN carrier<typename T::part> part(carrier<T> all, int i)
{
    typedef typename T::part P;
    typedef conditional_t<sizeof(carrier<T>) == 8, u32, u16> Half;
    return bit_cast<carrier<P>>((Half)(all >> (i * 8 * (int)sizeof(Half))));
}
template <class T> TK_FN carrier<T> join(carrier<typename T::part> low, carrier<typename T::part> high)
{
    typedef conditional_t<sizeof(carrier<T>) == 8, u32, u16> Half;
    return (carrier<T>)(bit_cast<Half>(high)) << (8 * (int)sizeof(Half)) | bit_cast<Half>(low);
}

// A float in a wider one, exactly.
template <class T> TK_FN f32 as_f32(carrier<T> x)
{
    if constexpr (is_same<T, F16>::value) return to_f32_number(f16{x});
    else if constexpr (is_same<T, BF16>::value) return bit_cast<f32>((u32)x << 16);
    else if constexpr (is_same<T, TF32>::value) return bit_cast<f32>(x & 0xffffe000u);
    else return x;
}
template <class T> TK_FN f64 as_f64(carrier<T> x)
{
    if constexpr (is_same<T, F64>::value) return x;
    else return (f64)as_f32<T>(x);
}
template <class T> TK_FN bool is_nan(carrier<T> x)
{
    return (bit_cast<bits_of<T>>(x) & (bits_of<T>)(T::sign - 1)) > (bits_of<T>)T::infinity;
}
// x, or where it is subnormal the zero of its sign.
template <class T> TK_FN carrier<T> flush(carrier<T> x)
{
    const bits_of<T> bits = bit_cast<bits_of<T>>(x), size = bits & (bits_of<T>)(T::sign - 1);
    return bit_cast<carrier<T>>((bits_of<T>)(size < (bits_of<T>)T::least_normal ? bits & (bits_of<T>)T::sign : bits));
}
template <class T, u32 F> TK_FN carrier<T> input(carrier<T> x)
{
    if constexpr ((F & FTZ) != 0 && !is_same<T, BF16>::value) return flush<T>(x);
    else return x;
}

// Whether to add one to a magnitude that lost `rest` of 2 * `half`.
template <Round R> TK_FN u64 rounds_up(u64 kept, u64 rest, u64 half, bool negative)
{
    if constexpr (R == RN) return rest > half || (rest == half && (kept & 1u)) ? 1u : 0u;
    else if constexpr (R == RNA) return rest >= half ? 1u : 0u;
    else if constexpr (R == RM) return rest && negative ? 1u : 0u;
    else if constexpr (R == RP) return rest && !negative ? 1u : 0u;
    else return 0;
}
// Whether what is beyond the largest number becomes infinite.
template <Round R> TK_FN bool overflows(bool negative)
{
    return R == RN || R == RNA || (R == RM && negative) || (R == RP && !negative);
}

// x, which is no NaN, rounded to T once: T's bits. x may have been rounded to odd.
template <class T, Round R> TK_FN u32 round_bits(f64 x)
{
    const u64 bits = bit_cast<u64>(x), size = bits & 0x7fffffffffffffffull;
    const bool negative = bits >> 63;
    const i64 exponent = (i64)(size >> 52) - 1023, least = T::low + T::digits - 1;
    const i64 normal = exponent > least ? exponent : least, drop = 53 - T::digits + normal - exponent;
    const u64 shift = (u64)(drop < 63 ? drop : 63);
    const u64 significand = (size & 0xfffffffffffffull) | (size >> 52 ? 0x10000000000000ull : 0ull);
    const u64 kept = significand >> shift, rest = significand - (kept << shift), half = (u64)1 << (shift - 1);
    u64 out = ((u64)(normal - least) << (T::digits - 1)) + kept + rounds_up<R>(kept, rest, half, negative);
    const u64 beyond = size == 0x7ff0000000000000ull || overflows<R>(negative) ? T::infinity : T::infinity - 1;
    out = out >= T::infinity ? beyond : out;
    return (u32)(out | (negative ? T::infinity + T::least_normal : 0));
}

template <class T> TK_FN f32 least_normal() { return bit_cast<f32>((u32)(T::low + T::digits - 1 + 127) << 23); }
// Whether x, which may have been rounded to odd, is below T's least normal number before it is rounded; and whether it
// still is when it is rounded to as many digits with exponents of any size.
template <class T, class X> TK_FN bool is_tiny(X x) { return x < least_normal<T>() && x > -least_normal<T>(); }
template <class T, Round R, class X> TK_FN bool is_tiny_once_rounded(X x)
{
    const X least = least_normal<T>();
    const X last = least / (X)((u64)1 << T::digits), below = least - (R == RN ? last / 2 : last);  // a midpoint goes up
    if constexpr (R == RN) return x < below && x > -below;
    else if constexpr (R == RP) return x <= below && x > -least;
    else if constexpr (R == RM) return x < least && x >= -below;
    else return is_tiny<T>(x);
}

// round_bits() of an f32, which may have been rounded to odd; in lanes of 32 bits where the format allows.
template <class T, Round R> TK_FN u32 round_bits_f32(f32 x)
{
    const u32 bits = bit_cast<u32>(x), sign = bits >> 31;
    if constexpr (is_same<T, BF16>::value && R != RNA) {  // f32's exponents: dropping bits rounds, also to infinity
        const u32 whole = (bits & 0x7fffffffu) == 0x7f800000u ? 0u : ~0u;
        if constexpr (R == RN) return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        else return (bits + ((R == RM ? sign : (R == RP ? 1u - sign : 0u)) * 0xffffu & whole)) >> 16;
    }
    else if constexpr (is_same<T, F16>::value && R == RN) return f16_bits_from_f32(x);
    else return round_bits<T, R>((f64)x);
}
// a + b rounded to odd in f32.
TK_FN f32 add_odd_f32(f32 a, f32 b)
{
    const f32 s = a + b, t = s - a, error = (a - (s - t)) + (b - t);
    const u32 bits = bit_cast<u32>(s), down = (error < 0) == (s > 0) ? 1u : 0u;
    const bool inexact = error != 0 && error == error;
    return bit_cast<f32>(inexact && !(bits & 1) ? bits + 1u - 2u * down : bits);
}

// What a NaN is where it is passed on: in f64 the same made quiet, else the only one that results are.
template <class T> TK_FN bits_of<T> passed_on(bits_of<T> nan)
{
    return is_same<T, F64>::value ? (bits_of<T>)(nan | T::least_normal >> 1) : (bits_of<T>)T::nan;
}
// A result's bits after the modifiers, in PTX's order: what .sat, .relu and NaN make of them.
template <class T, u32 F> TK_FN bits_of<T> finish(bits_of<T> bits, bool nan)
{
    typedef bits_of<T> B;
    constexpr B one = (B)T::one, infinity = (B)T::infinity, only = (B)T::nan, sign = (B)T::sign;
    B out = nan ? only : bits;
    if constexpr ((F & SATFINITE) != 0) out = (out & (B)(sign - 1)) == infinity ? (B)(out - 1) : out;
    if constexpr ((F & SAT) != 0) out = out > infinity ? (B)0 : (out > one ? one : out);
    if constexpr ((F & RELU) != 0) out = (out & sign) && !nan ? (B)0 : out;
    return out;
}
template <class T, u32 F> TK_FN carrier<T> finished(carrier<T> x)
{
    return bit_cast<carrier<T>>(finish<T, F>(bit_cast<bits_of<T>>(x), is_nan<T>(x)));
}

}  // namespace atom
}  // namespace tk
#endif
