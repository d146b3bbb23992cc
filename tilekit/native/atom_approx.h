// Atoms .approx and .full: as exact as is cheap, so within the error that the PTX ISA allows, but not the GPU's bits.
#ifndef TILEKIT_NATIVE_ATOM_APPROX_H
#define TILEKIT_NATIVE_ATOM_APPROX_H
#include "atom_fma.h"
#include "math_exp.h"
#include "math_trig.h"

namespace tk {
namespace atom {

// The rounded result of a function of f32 in D's format; .ftz flushes what is subnormal there.
template <class D, u32 F> TK_FN carrier<D> approximated(f64 x)
{
    const u32 bits = round_bits<D, RN>(x);
    const carrier<D> out = bit_cast<carrier<D>>(finish<D, F>((bits_of<D>)bits, x != x));
    if constexpr ((F & FTZ) != 0) return flush<D>(out);
    else return out;
}
// For each: `value` of x, an f32, after .ftz of the operand.
#define TK_ATOM_APPROX(name, value)                                                         \
    template <class D, class A, Round R, u32 F> TK_FN carrier<D> name(carrier<A> a)         \
    {                                                                                       \
        if constexpr (is_several<D>) {                                                      \
            typedef typename D::part P;                                                     \
            return join<D>(name<P, P, R, F>(part<D>(a, 0)), name<P, P, R, F>(part<D>(a, 1))); \
        }                                                                                   \
        else {                                                                              \
            const f32 x = as_f32<A>((F & FTZ) != 0 ? flush<A>(a) : a);                      \
            return approximated<D, F>(value);                                               \
        }                                                                                   \
    }
TK_ATOM_APPROX(ex2_approx, tk::exp2(x))
TK_ATOM_APPROX(lg2_approx, tk::log2((f64)x))
TK_ATOM_APPROX(sin_approx, tk::sin(x))
TK_ATOM_APPROX(cos_approx, tk::cos(x))
TK_ATOM_APPROX(tanh_approx, tk::tanh(x))
TK_ATOM_APPROX(sqrt_approx, sqrt_ieee(x))

// f64 with .ftz is of the upper words alone.
TK_FN f64 upper_word(f64 x) { return bit_cast<f64>(bit_cast<u64>(x) & 0xffffffff00000000ull); }
TK_FN f64 upper_result(f64 r)
{
    const f64 word = flush<F64>(upper_word(r));
    return r != r ? bit_cast<f64>(0x7fffffff00000000ull) : word;
}
template <class D, class A, Round R, u32 F> TK_FN carrier<D> rcp_approx(carrier<A> a)
{
    if constexpr (is_same<D, F64>::value) return upper_result(1.0 / flush<F64>(upper_word(a)));
    else return approximated<D, F>(1.0f / input<F32, F>(a));
}
template <class D, class A, Round R, u32 F> TK_FN carrier<D> rsqrt_approx(carrier<A> a)
{
    if constexpr (is_same<D, F32>::value) return approximated<D, F>(1.0 / sqrt_ieee((f64)input<F32, F>(a)));
    else if constexpr ((F & FTZ) != 0) return upper_result(1.0 / sqrt_ieee(flush<F64>(upper_word(a))));
    else return propagated(1.0 / sqrt_ieee(a), a, a, a);
}
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> div_full(carrier<A> a, carrier<B> b)
{
    return approximated<D, F>(input<F32, F>(a) / input<F32, F>(b));
}
// As a * (1 / b), whose reciprocal is 0 for large b.
template <class D, class A, class B, Round R, u32 F> TK_FN carrier<D> div_approx(carrier<A> a, carrier<B> b)
{
    const f32 x = input<F32, F>(a), y = input<F32, F>(b), size = tk::abs(y);
    const bool large = size > 0x1p126f && size <= 0x1.fffffep127f;
    return approximated<D, F>(large ? x * copysign(0.0f, y) : x / y);
}

}  // namespace atom
}  // namespace tk
#endif
