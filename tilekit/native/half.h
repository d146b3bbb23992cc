// float16 and bfloat16 as plain 16-bit holders, and their conversions: to nearest, ties to even, rounded once, NaN to
// the canonical quiet NaN, subnormals and infinities exact.
#ifndef TILEKIT_NATIVE_HALF_H
#define TILEKIT_NATIVE_HALF_H
#include "base.h"

// F16C, ARM and clang convert in hardware; g++ does not vectorise its _Float16 conversions, the bit code does.
#if !defined(TK_CUDA) && !defined(TK_HALF_BITS) && defined(__FLT16_MAX__) && defined(__clang__) && \
    (defined(__F16C__) || defined(__aarch64__))
#define TK_HALF_NATIVE 1
#else
#define TK_HALF_NATIVE 0
#endif

namespace tk {

struct f16 { u16 bits; };
struct bf16 { u16 bits; };

// The f16 value of these bits, exactly, by bit code.
TK_FN f32 f16_bits_to_f32(u16 h)
{
    const u32 magnitude = (u32)(h & 0x7fffu) << 13;
    // Multiplying by 2^112 moves the exponent bias and makes subnormals normal; both are exact.
    u32 bits = bit_cast<u32>(bit_cast<f32>(magnitude) * 0x1p112f);
    bits |= (h & 0x7fffu) >= 0x7c00u ? 0x7f800000u : 0u;
    bits |= (h & 0x7fffu) > 0x7c00u ? 0x00400000u : 0u;
    return bit_cast<f32>(bits | (u32)(h & 0x8000u) << 16);
}

// The f16 bits nearest to x, by bit code.
TK_FN u16 f16_bits_from_f32(f32 x)
{
    const u32 bits = bit_cast<u32>(x), magnitude = bits & 0x7fffffffu;
    const u32 sign = (bits >> 16) & 0x8000u;
    // Normal results: move the bias, round by adding just under half an ulp plus the parity of the last kept bit.
    u32 normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
    normal = magnitude >= 0x477ff000u ? 0x7c00u : normal;
    // Subnormal results: adding 0.5 puts the last f16 bit at the last f32 bit, so the addition itself rounds.
    const u32 subnormal = bit_cast<u32>(bit_cast<f32>(magnitude) + 0.5f) - 0x3f000000u;
    u32 result = magnitude < 0x38800000u ? subnormal : normal;
    result |= sign;
    return (u16)(magnitude > 0x7f800000u ? 0x7e00u : result);
}

// x exactly, but which NaN a NaN becomes is not told: for arithmetic, which forgets it anyway.
TK_FN f32 to_f32_number(f16 x)
{
#if defined(TK_CUDA)
    f32 r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
    return r;
#elif TK_HALF_NATIVE
    return (f32)bit_cast<_Float16>(x.bits);
#else
    return f16_bits_to_f32(x.bits);
#endif
}
// x exactly.
TK_FN f32 to_f32(f16 x)
{
    const f32 r = to_f32_number(x);
#if defined(TK_CUDA)
    const u32 nan = (u32)(x.bits & 0x8000u) << 16 | (u32)(x.bits & 0x7fffu) << 13 | 0x7fc00000u;
    return r != r ? bit_cast<f32>(nan) : r;
#else
    return r;
#endif
}
TK_FN f32 to_f32(bf16 x)
{
    const u32 bits = (u32)x.bits << 16;
    return bit_cast<f32>(bits | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x00400000u : 0u));
}
TK_FN f32 to_f32_number(bf16 x)
{
#if defined(TK_CUDA)
    return bit_cast<f32>((u32)x.bits << 16);
#else
    return to_f32(x);
#endif
}
TK_FN f64 to_f64(f16 x) { return (f64)to_f32(x); }
TK_FN f64 to_f64(bf16 x) { return (f64)to_f32(x); }

// The f16 nearest to x.
TK_FN f16 to_f16(f32 x)
{
#if defined(TK_CUDA)
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return f16{(u16)(x != x ? 0x7e00u : bits)};
#elif TK_HALF_NATIVE
    const u16 bits = bit_cast<u16>((_Float16)x);
    return f16{(u16)(x != x ? 0x7e00u : bits)};
#else
    return f16{f16_bits_from_f32(x)};
#endif
}

// The bf16 nearest to x.
TK_FN bf16 to_bf16(f32 x)
{
#if defined(TK_CUDA) && __CUDA_ARCH__ >= 800
    u16 rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
#else
    const u32 bits = bit_cast<u32>(x);
    const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
#endif
    return bf16{(u16)(x != x ? 0x7fc0u : rounded)};
}

// x rounded to f32 towards zero with the last bit set if inexact ("round to odd"): rounding that once more to a type
// with at least two bits less gives the correctly rounded x.
TK_FN f32 to_f32_odd(f64 x)
{
    const f32 nearest = (f32)x;
    const f64 back = (f64)nearest;
    const bool inexact = back != x && x == x;
    const u32 bits = bit_cast<u32>(nearest);
    const u64 a = bit_cast<u64>(back) & 0x7fffffffffffffffull, b = bit_cast<u64>(x) & 0x7fffffffffffffffull;
    const u32 below = bits - (a > b ? 1u : 0u);  // magnitudes order like their bits
    return bit_cast<f32>(inexact ? below | 1u : bits);
}
TK_FN f16 to_f16(f64 x) { return to_f16(to_f32_odd(x)); }
TK_FN bf16 to_bf16(f64 x) { return to_bf16(to_f32_odd(x)); }

// v as f64, rounded to odd where 53 bits do not hold it.
TK_FN f64 to_f64_odd(u64 v)
{
    const u64 cut = (v & ~0x7ffull) | ((v & 0x7ffull) ? 0x800ull : 0ull);
    return (f64)(v >> 53 ? cut : v);
}
TK_FN f64 to_f64_odd(i64 v)
{
    const u64 magnitude = v < 0 ? 0ull - (u64)v : (u64)v;
    const f64 r = to_f64_odd(magnitude);
    return v < 0 ? -r : r;
}
TK_FN f16 to_f16(u64 v) { return to_f16(to_f64_odd(v)); }
TK_FN f16 to_f16(i64 v) { return to_f16(to_f64_odd(v)); }
TK_FN f16 to_f16(u32 v) { return to_f16((f64)v); }
TK_FN f16 to_f16(i32 v) { return to_f16((f64)v); }
TK_FN bf16 to_bf16(u64 v) { return to_bf16(to_f64_odd(v)); }
TK_FN bf16 to_bf16(i64 v) { return to_bf16(to_f64_odd(v)); }
TK_FN bf16 to_bf16(u32 v) { return to_bf16((f64)v); }
TK_FN bf16 to_bf16(i32 v) { return to_bf16((f64)v); }

}  // namespace tk
#endif
