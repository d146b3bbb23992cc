// Atomic updates of a part of an array by a tile.
#ifndef TILEKIT_NATIVE_TILE_ATOMIC_H
#define TILEKIT_NATIVE_TILE_ATOMIC_H
#include "atomic.h"
#include "fragment.h"
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
template <class L, int... Dims, class T>
TK_FN void add_registers(int rank, const T (&r)[L::registers], const Array<T, sizeof...(Dims)>& a,
                         const i64 (&offset)[sizeof...(Dims)])
{
    static_assert(!L::has_copies, "an element would be added by several threads");
    const HeldWindow<L, T, Dims...> held(rank, window<T, Dims...>(a, offset));
    u64 to;
#ifdef TK_CUDA
    constexpr int V = register_run<L, T>(Shape<Dims...>::last());
    if constexpr (has_pack_add<T> && V * (int)sizeof(T) == 16) {
        if (Runs<V, false, Dims...>::fit_window(held.window)) {
            TK_UNROLL
            for (int i = 0; i < L::registers; i += V)
                if (held.template find<V>(i, to)) add_pack<T>(to, pack<16>(&r[i]));
            return;
        }
    }
#endif
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i)
        if (held.template find<1>(i, to)) atomic_add(global_pointer<T>(to), r[i]);
}

#ifdef TK_CUDA
// Four neighbours of a row, from column `col` on, of a part of an array; those outside are dropped.
template <class T> TK_FN void add_four(const Plane& p, int row, int col, const T (&v)[4])
{
    const bool ok = is_inside(p.rows, row), whole = col >= p.cols.lo && col + 4 <= p.cols.hi;
    const u64 to = address(p, row, col);
    if constexpr (has_pack_add<T>)
        if (ok && whole) add_pack<T>(to, pack<16>(v));
    TK_UNROLL
    for (int j = 0; j < 4; ++j)
        if (ok && !(has_pack_add<T> && whole) && is_inside(p.cols, col + j)) atomic_add(global_pointer<T>(to) + j, v[j]);
}
// The same of a fragment; Packed as in store_fragment. Lanes that hold two neighbours of a row exchange them with the
// next lane, so that each has four of one row.
template <class L, bool Packed, class T, int ND>
TK_FN void add_fragment(int rank, const T* r, const Array<T, ND>& a, const i64 (&offset)[ND])
{
    const Plane p = plane<L::M, L::N, 0, 1>(a, offset);
    if constexpr (Packed && sizeof(T) == 4 && !is_unit_layout<L>) {
        if constexpr (L::run == 2 && L::thread_rows % 2 == 0) {
            const int odd = rank % 2;
            TK_UNROLL
            for (int x = 0; x < L::thread_rows; x += 2) {
                TK_UNROLL
                for (int y = 0; y < L::thread_cols; y += 2) {
                    const int i = L::number(x, y), k = L::number(x + 1, y), own = odd ? k : i;
                    const T first = other_lane(odd ? r[i] : r[k], 1), second = other_lane(odd ? r[i + 1] : r[k + 1], 1);
                    const T mine = odd ? r[k] : r[i], next = odd ? r[k + 1] : r[i + 1];
                    const T v[] = {odd ? first : mine, odd ? second : next, odd ? mine : first, odd ? next : second};
                    add_four(p, L::row(rank, own), L::col(rank, i) - 2 * odd, v);
                }
            }
            return;
        }
        if constexpr (L::run == 4) {
            TK_UNROLL
            for (int i = 0; i < L::registers; i += 4) {
                const T v[] = {r[i], r[i + 1], r[i + 2], r[i + 3]};
                add_four(p, L::row(rank, i), L::col(rank, i), v);
            }
            return;
        }
    }
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i) {
        const int row = L::row(rank, i), col = L::col(rank, i);
        if (is_held<L>(rank, i) && is_inside(p.rows, row) && is_inside(p.cols, col))
            atomic_add(global_pointer<T>(address(p, row, col)), r[i]);
    }
}
#endif

}  // namespace tk
#endif
