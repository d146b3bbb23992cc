// What CUDA C++ adds to C++, on the CPU: the threads of a block are fibers of one thread, which take turns where they wait.
#ifndef TILEKIT_TESTS_EMULATOR_CUDA_H
#define TILEKIT_TESTS_EMULATOR_CUDA_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline, unused))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __grid_constant__

alignas(1024) char arena[232448];  // the dynamic shared memory of the block that runs

namespace emulator {

struct Index { int x; };
struct Copy { char* to; const char* from; int valid, bytes; };  // of cp.async: `bytes` are written, `valid` read
struct Copies { Copy each[512]; int count; };
struct Fiber {
    ucontext_t context;
    char* stack;
    Index thread;
    bool done;
    Copies groups[16];      // copies under way; those of the group that is not ended yet are the last
    int ended;
};
struct Barrier {
    int expected, arrived;
    long turn;
};

constexpr int most_threads = 1024;
static const size_t stack_bytes = 1 << 18;
static Fiber* fibers[most_threads];
static Fiber* current;
static ucontext_t scheduler;
static Barrier whole_block, warps[most_threads / 32];
static Index block_index, block_extent, grid_extent;
static uint64_t posted[most_threads][8];
static bool reversed;      // whether the last thread has the first turn: who needs a barrier and has none shows in one order
static char failure[200];  // empty while nothing is wrong

// Leaves the kernel with a message.
[[noreturn]] static void fail(const char* what)
{
    snprintf(failure, sizeof(failure), "block %d, thread %d: %s", block_index.x, current->thread.x, what);
    setcontext(&scheduler);
    abort();
}
static __attribute__((noinline)) void wait(Barrier& barrier)
{
    const long turn = barrier.turn;
    if (++barrier.arrived == barrier.expected) {
        barrier.arrived = 0;
        ++barrier.turn;
        return;
    }
    while (barrier.turn == turn) swapcontext(&current->context, &scheduler);
}
static Barrier& own_warp() { return warps[current->thread.x / 32]; }
static uint64_t* of_lane(int lane) { return posted[current->thread.x / 32 * 32 + lane]; }
static int own_lane() { return current->thread.x % 32; }
// All lanes of a warp post `count` words, and read those of others until the next meeting.
template <class W> static void post(const W* words, int count)
{
    wait(own_warp());
    memset(of_lane(own_lane()), 0, sizeof(posted[0]));
    for (int i = 0; i < count; ++i) memcpy(of_lane(own_lane()) + i, words + i, sizeof(W));
    wait(own_warp());
}
template <class W> static W from_lane(int lane, int word)
{
    W found;
    memcpy(&found, of_lane(lane) + word, sizeof(W));
    return found;
}

// Shared memory is known by its distance from `arena`, modulo 2^32; only what lies in `arena` is checked.
static char* shared(uint32_t address, int bytes)
{
    if (address % bytes) fail("a misaligned address in shared memory");
    return arena + (int32_t)address;
}

static void copy(const Copy& c)
{
    memcpy(c.to, c.from, c.valid);
    memset(c.to + c.valid, 0, c.bytes - c.valid);
}
static void start_copy(uint32_t to, uint64_t from, int valid, int bytes)
{
    if (valid && from % bytes) fail("a misaligned address of an asynchronous copy");
    Copies& open = current->groups[current->ended];
    if (open.count == 512) fail("too many asynchronous copies in a group");
    open.each[open.count++] = Copy{shared(to, bytes), (const char*)from, valid, bytes};
}
static void end_copies()
{
    if (++current->ended == 16) fail("too many groups of asynchronous copies");
    current->groups[current->ended].count = 0;
}
// Copies happen as late as they may, so that who does not wait reads what was there before.
static void finish_copies(int left)
{
    while (current->ended > left) {
        for (int i = 0; i < current->groups[0].count; ++i) copy(current->groups[0].each[i]);
        for (int i = 0; i < current->ended; ++i) current->groups[i] = current->groups[i + 1];
        --current->ended;
    }
}

static void (*entry)(const void*);
static const void* given;
static void begin()
{
    entry(given);
    if (current->ended || current->groups[0].count) finish_copies(0);
    current->done = true;
    swapcontext(&current->context, &scheduler);
}
static long count_meetings(int threads)
{
    long count = whole_block.turn;
    for (int w = 0; w < threads / 32; ++w) count += warps[w].turn;
    return count;
}
static void run_block(int threads)
{
    memset(arena, 0xff, sizeof(arena));  // NaNs
    whole_block = Barrier{threads, 0, 0};
    for (int w = 0; w < threads / 32; ++w) warps[w] = Barrier{32, 0, 0};
    for (int t = 0; t < threads; ++t) {
        if (!fibers[t]) {
            fibers[t] = (Fiber*)calloc(1, sizeof(Fiber));
            fibers[t]->stack = (char*)malloc(stack_bytes);
        }
        Fiber& f = *fibers[t];
        f.thread = Index{t};
        f.done = false;
        f.ended = f.groups[0].count = 0;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack;
        f.context.uc_stack.ss_size = stack_bytes;
        f.context.uc_link = nullptr;
        makecontext(&f.context, begin, 0);
    }
    for (int left = threads; left;) {
        const int before = left;
        const long meetings = count_meetings(threads);
        for (int i = 0; i < threads; ++i) {
            const int t = reversed ? threads - 1 - i : i;
            if (fibers[t]->done) continue;
            current = fibers[t];
            swapcontext(&scheduler, &current->context);
            if (*failure) return;
            left -= fibers[t]->done;
        }
        if (left == before && meetings == count_meetings(threads)) {
            snprintf(failure, sizeof(failure), "block %d: threads wait for others that never come", block_index.x);
            return;
        }
    }
}

}  // namespace emulator

// Runs a function in each thread of each block. Says what went wrong, or nothing.
extern "C" __attribute__((visibility("default"))) const char* emulate(
    void (*kernel)(const void*), const void* arguments, long long blocks, long long threads)
{
    *emulator::failure = 0;
    emulator::reversed = getenv("TILEKIT_EMULATOR_REVERSED");
    emulator::entry = kernel;
    emulator::given = arguments;
    emulator::block_extent = emulator::Index{(int)threads};
    emulator::grid_extent = emulator::Index{(int)blocks};
    for (long long b = 0; b < blocks && !*emulator::failure; ++b) {
        emulator::block_index = emulator::Index{(int)b};
        emulator::run_block((int)threads);
    }
    return emulator::failure;
}

#define threadIdx (emulator::current->thread)
#define blockIdx (emulator::block_index)
#define blockDim (emulator::block_extent)
#define gridDim (emulator::grid_extent)
#define __syncthreads() emulator::wait(emulator::whole_block)

static inline size_t __cvta_generic_to_global(const void* p) { return (size_t)p; }
static inline void* __cvta_global_to_generic(uint64_t address) { return (void*)address; }
static inline size_t __cvta_generic_to_shared(const void* p) { return (size_t)((const char*)p - arena); }
static inline void* __cvta_shared_to_generic(size_t address) { return arena + address; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline void __threadfence_system() {}
template <class W> static W atomicCAS(W* p, W expected, W value)
{
    const W old = *p;
    if (old == expected) *p = value;
    return old;
}
#define TK_EMULATED_ATOMIC(name, updated) \
    template <class W> static W name(W* p, W value) \
    { \
        const W old = *p; \
        *p = updated; \
        return old; \
    }
TK_EMULATED_ATOMIC(atomicAdd, old + value)
TK_EMULATED_ATOMIC(atomicMin, value < old ? value : old)
TK_EMULATED_ATOMIC(atomicMax, value > old ? value : old)
TK_EMULATED_ATOMIC(atomicExch, value)
TK_EMULATED_ATOMIC(atomicAnd, old & value)
TK_EMULATED_ATOMIC(atomicOr, old | value)
TK_EMULATED_ATOMIC(atomicXor, old ^ value)
template <class W> static W __shfl_xor_sync(unsigned, W x, int distance)
{
    emulator::post(&x, 1);
    return emulator::from_lane<W>(emulator::own_lane() ^ distance, 0);
}
template <class W> static W __shfl_down_sync(unsigned, W x, int by)
{
    emulator::post(&x, 1);
    const int lane = emulator::own_lane() + by;
    return lane < 32 ? emulator::from_lane<W>(lane, 0) : x;
}
#endif
