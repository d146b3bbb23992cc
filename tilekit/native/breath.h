// How kernels on the CPU answer Ctrl-C inside a block.
#ifndef TILEKIT_NATIVE_BREATH_H
#define TILEKIT_NATIVE_BREATH_H
#include "base.h"

#ifndef TK_CUDA
namespace tk {

// A clock that is read in a few nanoseconds, and how much it counts in about 30 ms.
TK_FN u64 ticks()
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    u64 now;
    asm volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    return 0;
#endif
}
TK_FN u64 ticks_of_breath()
{
#if defined(__aarch64__)
    u64 frequency;
    asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency >> 5;
#else
    return (u64)1 << 26;
#endif
}

// Counts the iterations of a kernel's outermost loops: most cost a decrement and a branch.
struct Breath {
    i64 left = 1, size = 1;
    u64 since = ticks(), spent = 0;
};

// Looks at the clock: about every 30 ms the host is asked whether to end, and iterations are counted so that it is met in
// time. Before the arena stands whom to ask; it answers signals, which only the main thread does. False to leave the block.
TK_COLD bool look_up(Breath& breath, const char* arena, Error* error)
{
    const u64 now = ticks(), took = now - breath.since, limit = ticks_of_breath();
    breath.since = now;
    breath.spent += took;
    if (took < limit / 64 && breath.size < 4096) breath.size *= 2;
    else if (took > limit / 8) breath.size = breath.size > 4 ? breath.size / 4 : 1;
    breath.left = breath.size;
    if (breath.spent > limit) {
        breath.spent = 0;
        int (*ask)();
        __builtin_memcpy(&ask, arena - sizeof ask, sizeof ask);
        if (ask && ask() && claim(error)) __atomic_store_n(&error->kind, -1, __ATOMIC_RELEASE);
    }
    return !has_failed(error);
}

// At the head of each iteration of an outermost loop; `left` starts as breath.left and is kept there afterwards.
TK_FN bool goes_on(i64& left, Breath& breath, const char* arena, Error* error)
{
    if (__builtin_expect(--left != 0, 1)) return true;
    const bool on = look_up(breath, arena, error);
    left = breath.left;
    return on;
}

// Whether an index is more than a number of steps before another one, which it is before.
template <class T> TK_FN bool is_far(T to, T from, u64 steps) { return (u64)to - (u64)from > steps; }

}  // namespace tk
#endif
#endif
