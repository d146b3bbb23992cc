// Atomic updates of a part of an array by a tile.
#ifndef TILEKIT_NATIVE_TILE_ATOMIC_H
#define TILEKIT_NATIVE_TILE_ATOMIC_H
#include "atomic.h"
#include "ptx.h"
#include "registers.h"
#include "tile_team.h"

namespace tk {

// Whether 16 bytes of T in an array can be added to at once, each element atomically.
#if defined(TK_CUDA) && __CUDA_ARCH__ >= 900
template <class T> constexpr bool has_pack_add = is_same<T, f32>::value || is_half<T>;
#else
template <class T> constexpr bool has_pack_add = false;
#endif
#ifdef TK_CUDA
template <class T> TK_FN void add_pack(u64 to, const Pack<16>& pack)
{
    u32 v[4];
    unpack(v, pack);
    add_words(global_pointer<T>(to), v);
}
struct AddRun {
    template <class T, int V> TK_METHOD void operator()(u64 to, const T (&x)[V]) const { add_pack<T>(to, pack<16>(x)); }
};
#endif

// The array's elements at offset + (0 .. Dims) += src, which has these element strides, each atomically; elements
// outside are dropped.
template <class T, int... Dims, class TM>
TK_TILE void tile_atomic_add(TM team, const T* src, const i64 (&src_stride)[sizeof...(Dims)],
                             const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Runs<1, false, Dims...> One;
    const Window<T, One::rank> w = window<T, Dims...>(a, offset);
    int at[One::rank];
    u64 to;
#ifdef TK_CUDA
    constexpr int V = 16 / (int)sizeof(T);
    if constexpr (has_pack_add<T> && Shape<Dims...>::last() % V == 0) {
        typedef Runs<V, false, Dims...> R;
        if (R::fit_tile(src, src_stride) && R::fit_window(w)) {
            TK_UNROLL_BY(4)
            for (int e = team.rank(); e < R::count; e += team.size()) {
                R::find(e, at);
                const Pack<16> more = *(const Pack<16>*)(src + R::in_tile(at, src_stride));
                if (R::in_window(at, w, to)) add_pack<T>(to, more);
            }
            return;
        }
    }
#endif
    for (int e = team.rank(); e < One::count; e += team.size()) {
        One::find(e, at);
        if (One::in_window(at, w, to)) atomic_add(global_pointer<T>(to), src[One::in_tile(at, src_stride)]);
    }
}

// The same of a tile in registers; see store_registers.
template <class L, int Axis, int V, bool Known, int... Dims, class T>
TK_FN void add_registers(int rank, const T (&r)[L::registers], const Array<T, sizeof...(Dims)>& a,
                         const i64 (&offset)[sizeof...(Dims)])
{
    static_assert(!L::has_copies, "an element would be added by several threads");
    const Window<T, sizeof...(Dims)> w = window<T, Dims...>(a, offset);
    u64 to;
#ifdef TK_CUDA
    if constexpr (has_pack_add<T> && V * (int)sizeof(T) == 16) {
        const HeldWindow<L, Axis, V, T, Dims...> held(rank, w);
        if (Known || held.fits()) {
            held.each_run(r, AddRun{});
            return;
        }
    }
#endif
    const HeldWindow<L, Axis, 1, T, Dims...> held(rank, w);
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i)
        if (held.find(i, to)) atomic_add(global_pointer<T>(to), r[i]);
}

}  // namespace tk
#endif
