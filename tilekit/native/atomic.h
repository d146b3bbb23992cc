// Atomic updates of array elements. Each is relaxed, as CUDA's atomics are, and returns the old value.
#ifndef TILEKIT_NATIVE_ATOMIC_H
#define TILEKIT_NATIVE_ATOMIC_H
#include "pack.h"
#include "scalar.h"

namespace tk {

// The unsigned integer that holds a T in memory.
template <class T> using word_t = typename Word<(int)sizeof(T)>::type;

#ifdef TK_CUDA
TK_FN u64 load_word(u64* p) { return *(volatile u64*)p; }
TK_FN u32 load_word(u32* p) { return *(volatile u32*)p; }
TK_FN u16 load_word(u16* p) { return *(volatile u16*)p; }
TK_FN u8 load_word(u8* p) { return *(volatile u8*)p; }
TK_FN u64 compare_exchange(u64* p, u64 expected, u64 value) { return atomicCAS(p, expected, value); }
TK_FN u32 compare_exchange(u32* p, u32 expected, u32 value) { return atomicCAS(p, expected, value); }
// Narrow words through the aligned 32-bit word around them, so that no architecture is required.
template <class W> TK_FN W compare_exchange(W* p, W expected, W value)
{
    u32* const around = (u32*)((char*)p - ((u64)p & 3));  // from p: it may lie in global or in shared memory
    const int shift = (int)((u64)p & 3) * 8;
    const u32 mask = (u32)(W)~(W)0 << shift;
    u32 old = *(volatile u32*)around;
    while ((W)(old >> shift) == expected) {
        const u32 seen = atomicCAS(around, old, (old & ~mask) | (u32)value << shift);
        if (seen == old) return expected;
        old = seen;
    }
    return (W)(old >> shift);
}
#else
template <class W> TK_FN W load_word(W* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
// The old word; `value` was stored if that is `expected`.
template <class W> TK_FN W compare_exchange(W* p, W expected, W value)
{
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
#endif

// *p = update(*p) atomically; what would not change is not written.
template <class T, class F> TK_FN T atomic_update(T* p, F update)
{
    typedef word_t<T> W;
    W old = load_word((W*)p);
    for (;;) {
        const W wanted = bit_cast<W>(update(bit_cast<T>(old)));
        const W seen = wanted == old ? old : compare_exchange((W*)p, old, wanted);
        if (seen == old) return bit_cast<T>(old);
        old = seen;
    }
}

template <class T> struct AddTo { T v; TK_METHOD T operator()(T x) const { return add(x, v); } };
template <class T> struct MinTo { T v; TK_METHOD T operator()(T x) const { return min(x, v); } };
template <class T> struct MaxTo { T v; TK_METHOD T operator()(T x) const { return max(x, v); } };
template <class T> struct PutIn { T v; TK_METHOD T operator()(T) const { return v; } };
template <class T> struct AndTo { T v; TK_METHOD T operator()(T x) const { return bit_and(x, v); } };
template <class T> struct OrTo { T v; TK_METHOD T operator()(T x) const { return bit_or(x, v); } };
template <class T> struct XorTo { T v; TK_METHOD T operator()(T x) const { return bit_xor(x, v); } };

#ifdef TK_CUDA
// Where CUDA has an instruction for T: 32 and 64-bit integers.
template <class T> constexpr bool has_atomics = Num<T>::is_int && sizeof(T) >= 4;
// T as the overloads of atomicMin() and atomicMax() spell it.
template <class T>
using atomic_t = conditional_t<Num<T>::is_signed, conditional_t<sizeof(T) == 8, i64, i32>, word_t<T>>;
#endif

// *p += v: integers wrap, f16 and bf16 are computed in f32 and rounded once. CUDA takes subnormal f32 for zero here.
template <class T> TK_FN T atomic_add(T* p, T v)
{
#ifdef TK_CUDA
    if constexpr (is_same<T, f32>::value || is_same<T, f64>::value) return atomicAdd(p, v);
    else if constexpr (has_atomics<T>) return (T)atomicAdd((word_t<T>*)p, (word_t<T>)v);
#else
    if constexpr (Num<T>::is_int) return (T)__atomic_fetch_add((word_t<T>*)p, (word_t<T>)v, __ATOMIC_RELAXED);
#endif
    else return atomic_update(p, AddTo<T>{v});
}
// *p = min(*p, v) or max, by tk::min and tk::max: a NaN is replaced by a number.
template <class T> TK_FN T atomic_min(T* p, T v)
{
#ifdef TK_CUDA
    if constexpr (has_atomics<T>) return (T)atomicMin((atomic_t<T>*)p, (atomic_t<T>)v);
    else
#endif
        return atomic_update(p, MinTo<T>{v});
}
template <class T> TK_FN T atomic_max(T* p, T v)
{
#ifdef TK_CUDA
    if constexpr (has_atomics<T>) return (T)atomicMax((atomic_t<T>*)p, (atomic_t<T>)v);
    else
#endif
        return atomic_update(p, MaxTo<T>{v});
}
// *p = v.
template <class T> TK_FN T atomic_exch(T* p, T v)
{
#ifdef TK_CUDA
    if constexpr (sizeof(T) >= 4) return bit_cast<T>((word_t<T>)atomicExch((word_t<T>*)p, bit_cast<word_t<T>>(v)));
    else
#endif
        return atomic_update(p, PutIn<T>{v});
}
// *p = v if *p and `expected` have the same bits.
template <class T> TK_FN T atomic_cas(T* p, T expected, T v)
{
    typedef word_t<T> W;
    return bit_cast<T>(compare_exchange((W*)p, bit_cast<W>(expected), bit_cast<W>(v)));
}
// *p &= v, |= v, ^= v of integers and bools.
#ifdef TK_CUDA
#define TK_ATOMIC_BITS(name, native, Functor) \
    template <class T> TK_FN T name(T* p, T v) \
    { \
        if constexpr (has_atomics<T>) return (T)native((word_t<T>*)p, (word_t<T>)v); \
        else return atomic_update(p, Functor<T>{v}); \
    }
#else
#define TK_ATOMIC_BITS(name, native, Functor) \
    template <class T> TK_FN T name(T* p, T v) { return atomic_update(p, Functor<T>{v}); }
#endif
TK_ATOMIC_BITS(atomic_and, atomicAnd, AndTo)
TK_ATOMIC_BITS(atomic_or, atomicOr, OrTo)
TK_ATOMIC_BITS(atomic_xor, atomicXor, XorTo)
#undef TK_ATOMIC_BITS

}  // namespace tk
#endif
