// Shapes of tiles, and the part of an array that lies under a tile.
#ifndef TILEKIT_NATIVE_WINDOW_H
#define TILEKIT_NATIVE_WINDOW_H
#include "base.h"

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
    const i64 left = extent - offset;
    const bool some = (offset > -(i64)dim) & (left > 0);  // no branches: loads after them would wait for each other
    const int lo = offset < 0 ? (int)-offset : 0, hi = left < (i64)dim ? (int)left : dim;
    return {some ? lo : 0, some ? hi : 0};
}

TK_FN bool is_whole(Range range, int dim) { return range.hi - range.lo == dim; }
TK_FN bool is_inside(const Range& r, int at) { return at >= r.lo && at < r.hi; }

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
    w.base = address_of(a);
    w.whole = true;
    TK_UNROLL
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
    TK_UNROLL
    for (int x = S::rank - 2; x >= 0; --x) {
        const int e = x ? row % S::dim(x) : row;
        row /= S::dim(x);
        ok = ok && e >= w.range[x].lo && e < w.range[x].hi;
        address += (u64)(i64)e * (u64)w.stride[x];
    }
    return ok;
}
// The offset in elements of row number `row` in a tile of these element strides.
template <int... Dims> TK_FN i64 tile_row(const i64 (&stride)[sizeof...(Dims)], int row)
{
    typedef Shape<Dims...> S;
    i64 at = 0;
    TK_UNROLL
    for (int x = S::rank - 2; x >= 0; --x) {
        at += (x ? row % S::dim(x) : row) * stride[x];
        row /= S::dim(x);
    }
    return at;
}
template <int... Dims> TK_FN bool is_dense(const i64 (&stride)[sizeof...(Dims)])
{
    bool dense = true;
    TK_UNROLL
    for (int x = 0; x < (int)sizeof...(Dims); ++x)
        dense = dense && (Shape<Dims...>::dim(x) == 1 || stride[x] == Shape<Dims...>::dense_stride(x));
    return dense;
}

}  // namespace tk
#endif
