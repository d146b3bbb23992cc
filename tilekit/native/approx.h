// Instructions of GPUs that approximate functions of f32; their errors are what the PTX ISA allows. Subnormal operands and
// results are zero.
#ifndef TILEKIT_NATIVE_APPROX_H
#define TILEKIT_NATIVE_APPROX_H
#include "base.h"

#ifdef TK_CUDA
namespace tk {

// 2^x: within 2 ulp.
TK_FN f32 approx_exp2(f32 x)
{
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// 1 / x: within 1 ulp.
TK_FN f32 approx_reciprocal(f32 x)
{
    f32 y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// a * b + c rounded once and limited to [0, 1]; NaN gives 0.
TK_FN f32 fma_unit(f32 a, f32 b, f32 c)
{
    f32 y;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
    return y;
}

}  // namespace tk
#endif
#endif
