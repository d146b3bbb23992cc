// Moving tiles: array to tile, tile to array, tile to tile.
#ifndef TILEKIT_NATIVE_TILE_H
#define TILEKIT_NATIVE_TILE_H
#include "scalar.h"

namespace tk {

// The product of the dimensions, and the row-major element strides of a dense tile.
template <int... Dims> constexpr int tile_size = (1 * ... * Dims);
template <int... Dims> struct Shape {
    static constexpr int rank = sizeof...(Dims), dims[sizeof...(Dims)] = {Dims...};
    static constexpr int size = (1 * ... * Dims);
    static TK_METHOD constexpr int dim(int axis)
    {
        const int d[] = {Dims...};
        return d[axis];
    }
    static TK_METHOD constexpr int last() { return dim(rank - 1); }
    static TK_METHOD constexpr i64 dense_stride(int axis)
    {
        i64 s = 1;
        for (int x = rank - 1; x > axis; --x) s *= dim(x);
        return s;
    }
};

// The positions lo <= e < hi of an axis of a tile that lie inside the array; empty ranges have lo == hi.
struct Range { int lo, hi; };
TK_FN Range inside(i64 offset, i64 extent, int dim)
{
    if (offset <= -(i64)dim || offset >= extent) return {0, 0};
    const int lo = offset < 0 ? (int)-offset : 0;
    const i64 left = extent - offset;
    return {lo, left < (i64)dim ? (int)left : dim};
}

TK_FN bool is_whole(Range range, int dim) { return range.hi - range.lo == dim; }

// A window of an array under a tile: what of the tile lies inside, and the address of the tile's first element.
template <class T, int ND> struct Window {
    Range range[ND];
    u64 base;        // an address; only dereferenced inside the ranges, so it may wrap on the way
    i64 stride[ND];
    bool whole;      // the array covers the whole tile
};
template <class T, int... Dims>
TK_FN Window<T, sizeof...(Dims)> window(const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Shape<Dims...> S;
    Window<T, S::rank> w;
    w.base = (u64)a.data;
    w.whole = true;
    for (int x = 0; x < S::rank; ++x) {
        w.range[x] = inside(offset[x], a.shape[x], S::dim(x));
        w.stride[x] = a.stride[x];
        w.base += (u64)offset[x] * (u64)a.stride[x];
        w.whole = w.whole && is_whole(w.range[x], S::dim(x));
    }
    return w;
}
// A row is the elements along the last axis. Row number `row`, of the window: its address, and false if outside.
template <class T, int... Dims>
TK_FN bool window_row(const Window<T, sizeof...(Dims)>& w, int row, u64& address)
{
    typedef Shape<Dims...> S;
    bool ok = true;
    address = w.base;
    for (int x = S::rank - 2; x >= 0; --x) {
        const int e = row % S::dim(x);
        row /= S::dim(x);
        ok = ok && e >= w.range[x].lo && e < w.range[x].hi;
        address += (u64)e * (u64)w.stride[x];
    }
    return ok;
}
// The offset in elements of row number `row` in a tile of these element strides.
template <int... Dims> TK_FN i64 tile_row(const i64 (&stride)[sizeof...(Dims)], int row)
{
    typedef Shape<Dims...> S;
    i64 at = 0;
    for (int x = S::rank - 2; x >= 0; --x) {
        at += (row % S::dim(x)) * stride[x];
        row /= S::dim(x);
    }
    return at;
}

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
template <class T, int... Dims>
TK_TILE void load_strided(Team team, T* TK_RESTRICT dst, const i64 (&dst_stride)[sizeof...(Dims)],
                        const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Shape<Dims...> S;
    constexpr int n = S::last(), rows = S::size / n, last = S::rank - 1;
    const Window<T, S::rank> w = window<T, Dims...>(a, offset);
    const Range r = w.range[last];
    const i64 step = w.stride[last], to = dst_stride[last];
#ifdef TK_CUDA
    for (int e = team.rank(); e < S::size; e += team.size()) {
        u64 from;
        const int i = e % n;
        const bool ok = window_row<T, Dims...>(w, e / n, from) && i >= r.lo && i < r.hi;
        dst[tile_row<Dims...>(dst_stride, e / n) + i * to] = ok ? *(const T*)(from + (u64)i * (u64)step) : T{};
    }
#else
    for (int row = team.rank(); row < rows; row += team.size()) {
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
#endif
}
// The same into a dense row-major tile.
template <class T, int... Dims>
TK_TILE void load(Team team, T* TK_RESTRICT dst, const Array<T, sizeof...(Dims)>& a,
                const i64 (&offset)[sizeof...(Dims)])
{
    i64 stride[sizeof...(Dims)];
    for (int x = 0; x < (int)sizeof...(Dims); ++x) stride[x] = Shape<Dims...>::dense_stride(x);
    load_strided<T, Dims...>(team, dst, stride, a, offset);
}

// The array's elements at offset + (0 .. Dims) = src, which has these element strides; elements outside are dropped.
template <class T, int... Dims>
TK_TILE void store_strided(Team team, const T* TK_RESTRICT src, const i64 (&src_stride)[sizeof...(Dims)],
                         const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Shape<Dims...> S;
    constexpr int n = S::last(), rows = S::size / n, last = S::rank - 1;
    const Window<T, S::rank> w = window<T, Dims...>(a, offset);
    const Range r = w.range[last];
    const i64 step = w.stride[last], by = src_stride[last];
#ifdef TK_CUDA
    for (int e = team.rank(); e < S::size; e += team.size()) {
        u64 to;
        const int i = e % n;
        if (window_row<T, Dims...>(w, e / n, to) && i >= r.lo && i < r.hi)
            *(T*)(to + (u64)i * (u64)step) = src[tile_row<Dims...>(src_stride, e / n) + i * by];
    }
#else
    for (int row = team.rank(); row < rows; row += team.size()) {
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
#endif
}
// The same from a dense row-major tile.
template <class T, int... Dims>
TK_TILE void store(Team team, const T* TK_RESTRICT src, const Array<T, sizeof...(Dims)>& a,
                 const i64 (&offset)[sizeof...(Dims)])
{
    i64 stride[sizeof...(Dims)];
    for (int x = 0; x < (int)sizeof...(Dims); ++x) stride[x] = Shape<Dims...>::dense_stride(x);
    store_strided<T, Dims...>(team, src, stride, a, offset);
}

// Every element of a dense tile of `size` elements = value.
template <int Size, class T> TK_FN void fill(Team team, T* dst, T value)
{
    for (int e = team.rank(); e < Size; e += team.size()) dst[e] = value;
}

// dst = src, tile to tile, with element strides of any sign; the tiles must not overlap.
template <class T, int... Dims>
TK_FN void copy(Team team, T* TK_RESTRICT dst, const i64 (&dst_stride)[sizeof...(Dims)], const T* TK_RESTRICT src,
                const i64 (&src_stride)[sizeof...(Dims)])
{
    typedef Shape<Dims...> S;
    constexpr int n = S::last(), last = S::rank - 1;
#ifdef TK_CUDA
    for (int e = team.rank(); e < S::size; e += team.size())
        dst[tile_row<Dims...>(dst_stride, e / n) + e % n * dst_stride[last]] =
            src[tile_row<Dims...>(src_stride, e / n) + e % n * src_stride[last]];
#else
    for (int row = team.rank(); row < S::size / n; row += team.size()) {
        T* TK_RESTRICT d = dst + tile_row<Dims...>(dst_stride, row);
        const T* TK_RESTRICT s = src + tile_row<Dims...>(src_stride, row);
        for (int i = 0; i < n; ++i) d[i * dst_stride[last]] = s[i * src_stride[last]];
    }
#endif
}

}  // namespace tk
#endif
