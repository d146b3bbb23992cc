// What a kernel knows about its launch.
#ifndef TILEKIT_NATIVE_LAUNCH_H
#define TILEKIT_NATIVE_LAUNCH_H
#include "base.h"

namespace tk {

// Calls back into Python with the operands of one print or assert; `site` numbers the place in the kernel.
typedef void (*Report)(i32 site, i64 block, const void* values);

struct Launch {
    i64 dim[4];  // the grid, 1 where there are fewer dimensions
    i32 ndim;
    i32 block_dim;
    Report report;
};

// IEEE rounding and subnormals while it lives, whatever the host has set for this thread: all threads then compute the
// same bits. Only a call that is not inlined stands between what it sets and arithmetic that must not move before it.
struct FloatState {
#if !defined(TK_CUDA) && (defined(__x86_64__) || defined(__SSE__))
    u32 outer;
    TK_METHOD FloatState() : outer(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(0x1f80); }
    TK_METHOD ~FloatState() { __builtin_ia32_ldmxcsr(outer); }
#elif !defined(TK_CUDA) && defined(__aarch64__)
    u64 outer;
    TK_METHOD FloatState()
    {
        asm volatile("mrs %0, fpcr" : "=r"(outer));
        asm volatile("msr fpcr, %0" ::"r"((u64)0) : "memory");
    }
    TK_METHOD ~FloatState() { asm volatile("msr fpcr, %0" ::"r"(outer) : "memory"); }
#else
    TK_METHOD FloatState() {}
#endif
};

// Coordinate `axis` of a block or point, counted row by row.
TK_FN i64 coordinate(const Launch& launch, i64 block, int axis)
{
    i64 rest = block;
    for (int d = launch.ndim - 1; d > axis; --d) rest /= launch.dim[d];
    return rest % launch.dim[axis];
}

// How many points or blocks the grid has.
TK_FN i64 points(const Launch& launch) { return launch.dim[0] * launch.dim[1] * launch.dim[2] * launch.dim[3]; }

}  // namespace tk
#endif
