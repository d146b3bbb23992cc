// GNU vectors of the target's width, for the CPU's hot loops; nothing here is seen by NVRTC.
#ifndef TILEKIT_NATIVE_VECTOR_H
#define TILEKIT_NATIVE_VECTOR_H
#include "cast.h"

#ifndef TK_CUDA
#if defined(__AVX512F__)
#define TK_VECTOR_BYTES 64
#define TK_VECTOR_REGISTERS 32
#elif defined(__AVX__)
#define TK_VECTOR_BYTES 32
#define TK_VECTOR_REGISTERS 16
#else
#define TK_VECTOR_BYTES 16
#if defined(__aarch64__)
#define TK_VECTOR_REGISTERS 32
#else
#define TK_VECTOR_REGISTERS 16
#endif
#endif

namespace tk {

// Vector<T>::type holds lanes<T> elements; it may be read from and written to any address aligned for T.
template <class T> struct Vector;
template <> struct Vector<f32> { typedef f32 type __attribute__((vector_size(TK_VECTOR_BYTES), aligned(4), may_alias)); };
template <> struct Vector<f64> { typedef f64 type __attribute__((vector_size(TK_VECTOR_BYTES), aligned(8), may_alias)); };
template <> struct Vector<u32> { typedef u32 type __attribute__((vector_size(TK_VECTOR_BYTES), aligned(4), may_alias)); };
template <class T> constexpr int lanes = TK_VECTOR_BYTES / (int)sizeof(T);

// All lanes x. Spelled out, because g++ makes 'x - V{}' a wide unaligned load and a shuffle.
template <class T> TK_FN typename Vector<T>::type broadcast(T x)
{
    typedef typename Vector<T>::type V;
    if constexpr (lanes<T> == 2) return V{x, x};
    else if constexpr (lanes<T> == 4) return V{x, x, x, x};
    else if constexpr (lanes<T> == 8) return V{x, x, x, x, x, x, x, x};
    else return V{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

// a * b + c in every lane: rounded once where the target has FMA instructions, else product and sum rounded each.
template <class V, class T> TK_FN V multiply_add_lanes(V a, V b, V c)
{
#if !TK_HAS_FMA
    return a * b + c;
#elif defined(__clang__)
    return __builtin_elementwise_fma(a, b, c);
#else
    V r;
    for (int i = 0; i < lanes<T>; ++i)
        r[i] = sizeof(T) == 4 ? (T)__builtin_fmaf((f32)a[i], (f32)b[i], (f32)c[i]) : (T)__builtin_fma(a[i], b[i], c[i]);
    return r;
#endif
}
template <class T>
TK_FN typename Vector<T>::type multiply_add_floats(typename Vector<T>::type a, typename Vector<T>::type b,
                                                   typename Vector<T>::type c)
{
    typedef T V __attribute__((vector_size(TK_VECTOR_BYTES)));
    // g++ turns the loop over lanes into the instruction, but then broadcasts by a wide load and a shuffle.
#if defined(__FMA__) && !defined(__clang__) && defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return __builtin_ia32_vfmaddps512_mask((V)a, (V)b, (V)c, (u16)-1, 4);
    else return __builtin_ia32_vfmaddpd512_mask((V)a, (V)b, (V)c, (u8)-1, 4);
#elif defined(__FMA__) && !defined(__clang__) && defined(__AVX__)
    if constexpr (sizeof(T) == 4) return __builtin_ia32_vfmaddps256((V)a, (V)b, (V)c);
    else return __builtin_ia32_vfmaddpd256((V)a, (V)b, (V)c);
#else
    return multiply_add_lanes<V, T>(a, b, c);
#endif
}
// The same, also of integers, which wrap.
template <class T>
TK_FN typename Vector<T>::type multiply_add(typename Vector<T>::type a, typename Vector<T>::type b,
                                            typename Vector<T>::type c)
{
    if constexpr (Num<T>::is_float) return multiply_add_floats<T>(a, b, c);
    else return a * b + c;
}

// dst[0..n) = the consecutive src[0..n) in Acc, exactly (f64 to f32 rounds).
template <class Acc, class T> TK_FN void widen_run(Acc* TK_RESTRICT dst, const T* TK_RESTRICT src, int n)
{
    int i = 0;
#if defined(__F16C__) && !defined(__clang__)
    if constexpr (is_same<T, f16>::value && is_same<Acc, f32>::value) {
        typedef short Halves __attribute__((vector_size(16)));
        typedef f32 Floats __attribute__((vector_size(32), aligned(4), may_alias));
        for (; i + 8 <= n; i += 8) {
            Halves h;
            __builtin_memcpy(&h, src + i, 16);
            *(Floats*)(dst + i) = __builtin_ia32_vcvtph2ps256(h);
        }
    }
#endif
    for (; i < n; ++i) dst[i] = cast<Acc>(src[i]);
}

}  // namespace tk
#endif
#endif
