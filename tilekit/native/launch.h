// What a kernel knows about its launch.
#ifndef TILEKIT_NATIVE_LAUNCH_H
#define TILEKIT_NATIVE_LAUNCH_H
#include "base.h"

namespace tk {

// Calls back into Python with the operands of one print or assert; `site` numbers the place in the kernel. On CUDA the
// host reads a tk::Mailbox instead, whose address stands in its place.
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

// For bounds of the points that need no checks.
TK_FN i64 lesser(i64 a, i64 b) { return a < b ? a : b; }
TK_FN bool is_int32(i64 n) { return n == (i64)(i32)n; }
TK_FN bool is_index(i64 n, i64 extent) { return (u64)n < (u64)extent; }
TK_FN i64 between(i64 n, i64 low, i64 high) { return n < low ? low : n < high ? n : high; }

// block / extent, and what is left of it. CUDA divides 64-bit numbers slowly, and hardly any grid needs them.
TK_FN i64 divide_grid(i64 block, i64 extent, i64& left)
{
#ifdef TK_CUDA
    if (((u64)block | (u64)extent) >> 32 == 0) {
        const u32 quotient = (u32)block / (u32)extent;
        left = (i64)((u32)block - quotient * (u32)extent);
        return (i64)quotient;
    }
#endif
    left = block % extent;
    return block / extent;
}
// Coordinate `axis` of a block or point, counted row by row.
TK_FN i64 coordinate(const Launch& launch, i64 block, int axis)
{
    i64 rest = block, at = 0;
    for (int d = launch.ndim - 1; d >= axis; --d) rest = divide_grid(rest, launch.dim[d], at);
    return at;
}
// How many of its lanes a block of consecutive points has; the last one may lack some.
TK_FN i32 present(const Launch& launch, i64 block, i32 lanes)
{
    const i64 points = launch.dim[0] * launch.dim[1] * launch.dim[2] * launch.dim[3], left = points - block * lanes;
    return left < lanes ? (i32)left : lanes;
}
// All of them, for a grid of ND axes.
template <int ND> TK_FN void coordinates(const Launch& launch, i64 block, i32 (&at)[ND])
{
    i64 rest = block, left;
    TK_UNROLL
    for (int d = ND - 1; d > 0; --d) {
        rest = divide_grid(rest, launch.dim[d], left);
        at[d] = (i32)left;
    }
    at[0] = (i32)rest;
}

}  // namespace tk
#endif
