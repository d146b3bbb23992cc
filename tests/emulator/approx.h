// The instructions of native/approx.h: rounded to nearest, or as far off as the PTX ISA allows.
#ifndef TILEKIT_NATIVE_APPROX_H
#define TILEKIT_NATIVE_APPROX_H
#include "base.h"

namespace emulator {

static int exp2_off, reciprocal_off;  // 1 or -1: the largest or the least result that is allowed

// The number nearest to an exact result, or the outermost one within so many ulp above (off 1) or below (off -1).
static float approximated(double exact, double ulps, int off)
{
    if (!(fabs(exact) >= 0x1p-126) || isinf(exact)) return exact != exact ? NAN : (float)copysign(isinf(exact) ? exact : 0, exact);
    const double bound = exact + off * ulps * ldexp(1.0, ilogb(exact) - 23);
    const float found = (float)bound;
    const bool outside = off > 0 ? found > bound : off < 0 && found < bound;
    return outside ? nextafterf(found, (float)exact) : found;
}
static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

}  // namespace emulator

namespace tk {

TK_FN f32 approx_exp2(f32 x)
{
    const f32 given = emulator::flushed(x);
    return given == 0 ? 1.0f : emulator::approximated(::exp2((f64)given), 2, emulator::exp2_off);
}
TK_FN f32 approx_reciprocal(f32 x)
{
    return emulator::approximated(1 / (f64)emulator::flushed(x), 1, emulator::reciprocal_off);
}
TK_FN f32 fma_unit(f32 a, f32 b, f32 c)
{
    const f32 y = fmaf(a, b, c);
    return y > 0 ? fminf(y, 1.0f) : 0.0f;
}

}  // namespace tk
#endif
