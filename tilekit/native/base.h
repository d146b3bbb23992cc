// Types, function attributes, the Team, array descriptors and error records. Freestanding: nothing is included, nothing
// is linked. The same text is compiled by g++, clang and NVRTC.
#ifndef TILEKIT_NATIVE_BASE_H
#define TILEKIT_NATIVE_BASE_H

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define TK_CUDA 1
#define TK_FN static __device__ __forceinline__
#define TK_METHOD __device__ __forceinline__
#define TK_CONSTANT static __device__ constexpr
#define TK_TABLE static __device__ const
#define TK_API extern "C" __global__
#elif defined(_WIN32)
#define TK_API extern "C" __declspec(dllexport)
#else
#define TK_API extern "C" __attribute__((visibility("default")))
#endif
#ifndef TK_CUDA
#define TK_FN static inline __attribute__((always_inline))
#define TK_METHOD inline __attribute__((always_inline))
#define TK_CONSTANT static constexpr
#define TK_TABLE static const
#endif
// A function that is too long or too rare to be worth inlining, or a copy for each constant it is called with.
#ifdef TK_CUDA
#define TK_COLD static __device__ __noinline__
#elif defined(__clang__)
#define TK_COLD static __attribute__((noinline, unused))
#else
#define TK_COLD static __attribute__((noinline, noclone, unused))
#endif
// A function of one element that is long: on CUDA one copy serves all its calls. A thread calls it for each of its elements,
// of which it may have a hundred, and copies for each would take minutes to compile.
#ifdef TK_CUDA
#define TK_LONG TK_COLD
#else
#define TK_LONG TK_FN
#endif
// A function over a whole tile: on the CPU one copy serves all its calls, which keeps unrolled kernels quick to compile.
#ifdef TK_CUDA
#define TK_TILE TK_FN
#else
#define TK_TILE static __attribute__((noinline, unused))
#endif
#define TK_RESTRICT __restrict__
// Unrolls the next loop wholly, or on CUDA n times.
#if defined(TK_CUDA)
#define TK_PRAGMA(text) _Pragma(#text)
#define TK_UNROLL _Pragma("unroll")
#define TK_UNROLL_BY(n) TK_PRAGMA(unroll (n))
#elif defined(__clang__)
#define TK_UNROLL _Pragma("clang loop unroll(full)")
#define TK_UNROLL_BY(n)
#else
#define TK_UNROLL _Pragma("GCC unroll 64")
#define TK_UNROLL_BY(n)
#endif
// Stands at the head of each loop that a kernel runs. g++ (12.2 at least) vectorises integers that such a loop steps by
// one amount, as in x += 3; y += 3, and then takes one for the other. It leaves a loop with an asm alone, and vectorises
// the loops inside and the straight code.
#if defined(__GNUC__) && !defined(__clang__) && !defined(TK_CUDA)
#define TK_ITERATION asm volatile("")
#else
#define TK_ITERATION (void)0
#endif

// 1 where a fused multiply-add is one instruction; elsewhere fma() computes the same bits, slowly.
#if defined(TK_CUDA) || defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA)
#define TK_HAS_FMA 1
#else
#define TK_HAS_FMA 0
#endif

namespace tk {

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
static_assert(sizeof(i32) == 4 && sizeof(i64) == 8 && sizeof(f32) == 4 && sizeof(f64) == 8, "unsupported data model");

// The bits of `from`, read as a value of type To of the same size.
template <class To, class From> TK_FN To bit_cast(const From& from)
{
    static_assert(sizeof(To) == sizeof(From), "bit_cast needs types of one size");
    To to;
#ifdef TK_CUDA
    memcpy(&to, &from, sizeof(To));
#else
    __builtin_memcpy(&to, &from, sizeof(To));
#endif
    return to;
}

// The address of an array's element as a pointer. On CUDA the compiler is told that it is in global memory, which it
// cannot see where addresses are computed as integers, as wrapping ones must be.
template <class T> TK_FN T* global_pointer(u64 address)
{
#ifdef TK_CUDA
    return (T*)__cvta_global_to_generic(address);
#else
    return (T*)address;
#endif
}

template <class A, class B> struct is_same { static constexpr bool value = false; };
template <class A> struct is_same<A, A> { static constexpr bool value = true; };
template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> using remove_const_t = typename remove_const<T>::type;
template <bool C, class A, class B> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
template <bool C, class A, class B> using conditional_t = typename conditional<C, A, B>::type;

// The threads that execute a cooperative function together; every type of team has these members. Element loops are
// written `for (int e = team.rank(); e < n; e += team.size())`. `threads` is the size where the compiler knows it, else 0;
// `alone` says that there is one thread, as on the CPU, where sync() does nothing. On CUDA the size is a multiple of 32
// and ranks start at a warp's first thread.
#ifdef TK_CUDA
struct Team {
    static constexpr bool alone = false;
    static constexpr int threads = 0;
    int rank_, size_, barrier_;  // barrier 0 is the whole block's; others are named barriers
    TK_METHOD Team() : rank_((int)threadIdx.x), size_((int)blockDim.x), barrier_(0) {}
    TK_METHOD Team(int rank, int size, int barrier) : rank_(rank), size_(size), barrier_(barrier) {}
    TK_METHOD int rank() const { return rank_; }
    TK_METHOD int size() const { return size_; }
    TK_METHOD void sync() const
    {
        if (barrier_ == 0) __syncthreads();
        else asm volatile("bar.sync %0, %1;" ::"r"(barrier_), "r"(size_) : "memory");
    }
};
// All threads of a one-dimensional block of Threads.
template <int Threads> struct BlockTeam {
    static_assert(Threads % 32 == 0 && Threads > 0 && Threads <= 1024, "a block has whole warps, at most 32");
    static constexpr bool alone = false;
    static constexpr int threads = Threads;
    static TK_METHOD int rank() { return (int)threadIdx.x; }
    static TK_METHOD constexpr int size() { return Threads; }
    static TK_METHOD void sync() { __syncthreads(); }
};
#else
struct Team {
    static constexpr bool alone = true;
    static constexpr int threads = 1;
    static constexpr int rank() { return 0; }
    static constexpr int size() { return 1; }
    static TK_METHOD void sync() {}
};
template <int Threads> using BlockTeam = Team;
#endif

// A strided array in memory; strides are in bytes and may be zero or negative.
template <class T, int ND> struct Array {
    static_assert(ND >= 1 && ND <= 4, "arrays have 1 to 4 dimensions");
    T* data;
    i64 shape[ND];
    i64 stride[ND];
};
// Where an array begins. NVRTC 13.0 never ends on some kernels with two pointers into global memory that it sees to come
// from the arguments, so it does not see that.
template <class T, int ND> TK_FN u64 address_of(const Array<T, ND>& a)
{
    u64 address = (u64)a.data;
#if defined(TK_CUDA) && __CUDACC_VER_MAJOR__ == 13 && __CUDACC_VER_MINOR__ == 0
    asm("" : "+l"(address));
#endif
    return address;
}

// What went wrong first in a launch; `kind` stays 0 while nothing did. Written once, by record().
struct Error {
    i32 kind;
    i32 line;
    i64 block;
    i64 index;
    i64 extent;
    i32 axis;
    i32 site;
    i32 lane;
    i32 claimed;
};
enum ErrorKind { kNoError = 0, kIndexError = 1, kAssertionError = 2, kValueError = 3, kUninitializedError = 4 };

// True for exactly one caller per error record: the one that may fill it.
TK_FN bool claim(Error* err)
{
#ifdef TK_CUDA
    return atomicCAS(&err->claimed, 0, 1) == 0;
#else
    i32 expected = 0;
    return __atomic_compare_exchange_n(&err->claimed, &expected, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
#endif
}

// Fills `err` unless another error came first; does nothing when `err` is null.
TK_COLD void record(Error* err, i32 kind, i32 line, i64 block, i64 index, i64 extent, i32 axis, i32 site, i32 lane)
{
    if (!err || !claim(err)) return;
    err->line = line;
    err->block = block;
    err->index = index;
    err->extent = extent;
    err->axis = axis;
    err->site = site;
    err->lane = lane;
    // Last, so that whoever sees a kind sees the rest; on CUDA the record lies in the host's memory.
#ifdef TK_CUDA
    __threadfence_system();
    *(volatile i32*)&err->kind = kind;
#else
    __atomic_store_n(&err->kind, kind, __ATOMIC_RELEASE);
#endif
}

// Whether something was recorded, by any thread.
TK_FN bool has_failed(const Error* err)
{
#ifdef TK_CUDA
    return *(const volatile i32*)&err->kind != 0;
#else
    return __atomic_load_n(&err->kind, __ATOMIC_RELAXED) != 0;
#endif
}

// True if 0 <= i < n; otherwise records an index error and returns false, so that the caller skips the access.
TK_FN bool check_index(Error* err, i64 i, i64 n, i32 axis, i32 line, i64 block, i32 site, i32 lane)
{
    if ((u64)i < (u64)n) return true;
    record(err, kIndexError, line, block, i, n, axis, site, lane);
    return false;
}

}  // namespace tk
#endif
