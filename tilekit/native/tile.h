// Moving tiles: array to tile, tile to array, tile to tile.
#ifndef TILEKIT_NATIVE_TILE_H
#define TILEKIT_NATIVE_TILE_H
#include "scalar.h"
#include "tile_team.h"

namespace tk {

// Rows are copied by these where they are not whole or their elements not consecutive: one function for tiles of all
// shapes, which keeps kernels quick to compile. Elements lo .. hi of n lie in the array, `step` bytes apart from `from`,
// and `by` elements apart in the tile.
template <class T>
TK_COLD void load_row(T* TK_RESTRICT tile, i64 by, u64 from, i64 step, int lo, int hi, int n)
{
    if (lo > 0 || hi < n)
        for (int i = 0; i < n; ++i) tile[i * by] = T{};
    if (by == 1 && step == (i64)sizeof(T)) {
        const T* TK_RESTRICT s = (const T*)from;
        for (int i = lo; i < hi; ++i) tile[i] = s[i];
    } else {
        for (int i = lo; i < hi; ++i) tile[i * by] = *(const T*)(from + (u64)i * (u64)step);
    }
}
template <class T>
TK_COLD void store_row(const T* TK_RESTRICT tile, i64 by, u64 to, i64 step, int lo, int hi)
{
    for (int i = lo; i < hi; ++i) *(T*)(to + (u64)i * (u64)step) = tile[i * by];
}

// dst = the array's elements at offset + (0 .. Dims), zero where that is outside the array. dst has these element
// strides; offsets may be any 64-bit numbers, the array's strides any bytes.
template <class T, int... Dims, class TM>
TK_TILE void load_strided(TM team, T* TK_RESTRICT dst, const i64 (&dst_stride)[sizeof...(Dims)],
                          const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Shape<Dims...> S;
    const Window<T, S::rank> w = window<T, Dims...>(a, offset);
    if constexpr (!TM::alone) team_load<T, Dims...>(team, dst, dst_stride, w);
    else {
        constexpr int n = S::last(), rows = S::size / n, last = S::rank - 1;
        const Range r = w.range[last];
        const i64 step = w.stride[last], to = dst_stride[last];
        for (int row = 0; row < rows; ++row) {
            u64 from;
            T* TK_RESTRICT d = dst + tile_row<Dims...>(dst_stride, row);
            const bool ok = window_row<T, Dims...>(w, row, from);
            if (w.whole && step == (i64)sizeof(T) && to == 1) {
                const T* TK_RESTRICT s = (const T*)from;
                for (int i = 0; i < n; ++i) d[i] = s[i];
                continue;
            }
            load_row(d, to, from, step, ok ? r.lo : 0, ok ? r.hi : 0, n);
        }
    }
}
// The same into a dense row-major tile.
template <class T, int... Dims, class TM>
TK_TILE void load(TM team, T* TK_RESTRICT dst, const Array<T, sizeof...(Dims)>& a,
                  const i64 (&offset)[sizeof...(Dims)])
{
    i64 stride[sizeof...(Dims)];
    TK_UNROLL
    for (int x = 0; x < (int)sizeof...(Dims); ++x) stride[x] = Shape<Dims...>::dense_stride(x);
    load_strided<T, Dims...>(team, dst, stride, a, offset);
}

// The array's elements at offset + (0 .. Dims) = src, which has these element strides; elements outside are dropped.
template <class T, int... Dims, class TM>
TK_TILE void store_strided(TM team, const T* TK_RESTRICT src, const i64 (&src_stride)[sizeof...(Dims)],
                           const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Shape<Dims...> S;
    const Window<T, S::rank> w = window<T, Dims...>(a, offset);
    if constexpr (!TM::alone) team_store<T, Dims...>(team, src, src_stride, w);
    else {
        constexpr int n = S::last(), rows = S::size / n, last = S::rank - 1;
        const Range r = w.range[last];
        const i64 step = w.stride[last], by = src_stride[last];
        for (int row = 0; row < rows; ++row) {
            u64 to;
            const T* TK_RESTRICT s = src + tile_row<Dims...>(src_stride, row);
            if (!window_row<T, Dims...>(w, row, to)) continue;
            if (w.whole && step == (i64)sizeof(T) && by == 1) {
                T* TK_RESTRICT d = (T*)to;
                for (int i = 0; i < n; ++i) d[i] = s[i];
                continue;
            }
            store_row(s, by, to, step, r.lo, r.hi);
        }
    }
}
// The same from a dense row-major tile.
template <class T, int... Dims, class TM>
TK_TILE void store(TM team, const T* TK_RESTRICT src, const Array<T, sizeof...(Dims)>& a,
                   const i64 (&offset)[sizeof...(Dims)])
{
    i64 stride[sizeof...(Dims)];
    TK_UNROLL
    for (int x = 0; x < (int)sizeof...(Dims); ++x) stride[x] = Shape<Dims...>::dense_stride(x);
    store_strided<T, Dims...>(team, src, stride, a, offset);
}

// Every element of a dense tile of `size` elements = value.
template <int Size, class T, class TM> TK_FN void fill(TM team, T* dst, T value)
{
    if constexpr (!TM::alone) team_fill<Size>(team, dst, value);
    else {
        for (int e = 0; e < Size; ++e) dst[e] = value;
    }
}

// dst = src, tile to tile, with element strides of any sign; the tiles must not overlap.
template <class T, int... Dims, class TM>
TK_FN void copy(TM team, T* TK_RESTRICT dst, const i64 (&dst_stride)[sizeof...(Dims)], const T* TK_RESTRICT src,
                const i64 (&src_stride)[sizeof...(Dims)])
{
    typedef Shape<Dims...> S;
    if constexpr (!TM::alone) team_copy<T, Dims...>(team, dst, dst_stride, src, src_stride);
    else {
        constexpr int n = S::last(), last = S::rank - 1;
        for (int row = 0; row < S::size / n; ++row) {
            T* TK_RESTRICT d = dst + tile_row<Dims...>(dst_stride, row);
            const T* TK_RESTRICT s = src + tile_row<Dims...>(src_stride, row);
            for (int i = 0; i < n; ++i) d[i * dst_stride[last]] = s[i * src_stride[last]];
        }
    }
}

}  // namespace tk
#endif
