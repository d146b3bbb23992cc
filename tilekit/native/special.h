// Inverse error functions, by Newton's method on the error functions of math.h.
#ifndef TILEKIT_NATIVE_SPECIAL_H
#define TILEKIT_NATIVE_SPECIAL_H
#include "math.h"

namespace tk {

// Winitzki's approximation of z with erfc(z) = y, for 0 < y <= 1, where y (2 - y) = exp(l): within 0.5 %.
TK_FN f64 erfcinv_start(f64 l)
{
    const f64 t = 4.3307467508092275 + 0.5 * l;  // 2 / (pi 0.147)
    return sqrt_ieee(sqrt_ieee(fma_ieee(t, t, -l / 0.147)) - t);
}

// erfinv for |x| <= 0.71: erf and its slope are well scaled, so Halley's step on erf(z) = x triples the digits.
TK_FN f64 erfinv_middle(f64 x)
{
    const f64 a = copysign(x, 1.0);
    f64 z = a < 1e-8 ? a * 0.8862269254527580 : erfcinv_start(log1p(-a * a));
    for (int i = 0; i < 3; ++i) {
        const f64 u = (erf(z) - a) * 0.8862269254527580 * exp(z * z);
        z -= u / fma_ieee(z, u, 1.0);
    }
    return copysign(z, x);
}

// erfcinv for y < 0.29, so z > 0.74: Newton on log erfc(z) = log(g) - z^2, which is nearly a parabola.
TK_FN f64 erfcinv_tail(f64 y)
{
    const f64 log_y = log(y);
    f64 z = erfcinv_start(log_y + log(2.0 - y));
    for (int i = 0; i < 4; ++i) {
        const f64 g = poly_erfcx((z - 4.0) / (z + 4.0)) / fma_ieee(2.0, z, 1.0);
        const f64 excess = (log(g) - log_y) - z * z;
        z = fma_ieee(g * 0.8862269254527580, excess, z);
    }
    return z;
}

// The z with erf(z) = x: infinite at -1 and 1, NaN beyond. f64 within 4 ulp.
TK_LONG f64 erfinv(f64 x)
{
    const f64 a = copysign(x, 1.0);
    if (a <= 0.71) return erfinv_middle(x);
    const f64 z = a < 1.0 ? erfcinv_tail(1.0 - a) : (a == 1.0 ? infinity() : quiet_nan());
    return copysign(z, x);
}
// The z with erfc(z) = y: infinite at 0, minus infinity at 2, NaN outside. f64 within 4 ulp.
TK_LONG f64 erfcinv(f64 y)
{
    if (y >= 0.29 && y <= 1.71) return erfinv_middle(1.0 - y);
    const bool upper = y > 1.0;
    const f64 tail = upper ? 2.0 - y : y;
    const f64 z = tail > 0 ? erfcinv_tail(tail) : (tail == 0 ? infinity() : quiet_nan());
    return upper ? -z : z;
}

TK_FN f32 erfinv(f32 x) { return (f32)erfinv((f64)x); }
TK_FN f32 erfcinv(f32 x) { return (f32)erfcinv((f64)x); }
TK_FN f16 erfinv(f16 x) { return to_f16(erfinv(to_f32_number(x))); }
TK_FN bf16 erfinv(bf16 x) { return to_bf16(erfinv(to_f32_number(x))); }
TK_FN f16 erfcinv(f16 x) { return to_f16(erfcinv(to_f32_number(x))); }
TK_FN bf16 erfcinv(bf16 x) { return to_bf16(erfcinv(to_f32_number(x))); }

}  // namespace tk
#endif
