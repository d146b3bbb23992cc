// Atomic updates of a part of an array by a tile.
#ifndef TILEKIT_NATIVE_TILE_ATOMIC_H
#define TILEKIT_NATIVE_TILE_ATOMIC_H
#include "atomic.h"
#include "tile_team.h"

namespace tk {

// Whether 16 bytes of T in an array can be added to at once, each element atomically.
#if defined(TK_CUDA) && __CUDA_ARCH__ >= 900
template <class T> constexpr bool has_pack_add = is_same<T, f32>::value || is_half<T>;
#else
template <class T> constexpr bool has_pack_add = false;
#endif
#ifdef TK_CUDA
template <class T> TK_FN void add_pack(Pack<16>* to, const Pack<16>& pack)
{
    u32 v[4];
    unpack(v, pack);
#define TK_ADD_PACK(form) \
    asm volatile("red.global.add." form " [%0], {%1, %2, %3, %4};" \
                 ::"l"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory")
    if constexpr (is_same<T, f32>::value) TK_ADD_PACK("v4.f32");
    else if constexpr (is_same<T, f16>::value) TK_ADD_PACK("noftz.v4.f16x2");
    else TK_ADD_PACK("noftz.v4.bf16x2");
#undef TK_ADD_PACK
}
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
                if (R::in_window(at, w, to)) add_pack<T>(global_pointer<Pack<16>>(to), more);
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
// The same, and `old` becomes what was there before each addition, zero outside; it may be src itself.
template <class T, int... Dims, class TM>
TK_TILE void tile_atomic_add(TM team, T* old, const i64 (&old_stride)[sizeof...(Dims)], const T* src,
                             const i64 (&src_stride)[sizeof...(Dims)], const Array<T, sizeof...(Dims)>& a,
                             const i64 (&offset)[sizeof...(Dims)])
{
    typedef Runs<1, false, Dims...> One;
    const Window<T, One::rank> w = window<T, Dims...>(a, offset);
    for (int e = team.rank(); e < One::count; e += team.size()) {
        int at[One::rank];
        u64 to;
        One::find(e, at);
        const T more = src[One::in_tile(at, src_stride)];
        old[One::in_tile(at, old_stride)] =
            One::in_window(at, w, to) ? atomic_add(global_pointer<T>(to), more) : T{};
    }
}

}  // namespace tk
#endif
