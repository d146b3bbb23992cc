// Tiles that lie in the registers of a block's threads as products leave them (layouts.h): moving them to and from arrays
// and tiles in memory. Elementwise code is a loop over the registers with their coordinates; all it needs of a fragment is
// an array of L::registers values in each of L::threads threads.
#ifndef TILEKIT_NATIVE_FRAGMENT_H
#define TILEKIT_NATIVE_FRAGMENT_H
#include "cast.h"
#include "layouts.h"
#include "pack.h"
#include "window.h"

#ifdef TK_CUDA
namespace tk {

// The part of an array under a tile of M x N elements: rows along one of its axes, columns along another, at one index of
// the others.
struct Plane {
    u64 base;  // the address of element (0, 0); only dereferenced inside the ranges
    i64 row_step, col_step;
    Range rows, cols;
};
template <int M, int N, int RowAxis, int ColAxis, class T, int ND>
TK_FN Plane plane(const Array<T, ND>& a, const i64 (&offset)[ND])
{
    Plane p{(u64)a.data, a.stride[RowAxis], a.stride[ColAxis], {}, {}};
    bool ok = true;
    TK_UNROLL
    for (int x = 0; x < ND; ++x) {
        p.base += (u64)offset[x] * (u64)a.stride[x];
        ok = ok && (x == RowAxis || x == ColAxis || (u64)offset[x] < (u64)a.shape[x]);
    }
    p.rows = ok ? inside(offset[RowAxis], a.shape[RowAxis], M) : Range{0, 0};
    p.cols = inside(offset[ColAxis], a.shape[ColAxis], N);
    return p;
}
TK_FN bool is_inside(const Range& r, int at) { return at >= r.lo && at < r.hi; }
TK_FN u64 address(const Plane& p, int row, int col) { return p.base + (u64)row * p.row_step + (u64)col * p.col_step; }

template <class T> TK_FN T element_of(const Plane& p, int row, int col)
{
    return is_inside(p.rows, row) && is_inside(p.cols, col) ? (T)*global_pointer<const T>(address(p, row, col)) : T{};
}

// v = the elements from (row, col) on that a thread holds as neighbours of a row. Packed as below.
template <bool Packed, class T, int Run> TK_FN void read_run(T (&v)[Run], const Plane& p, int row, int col)
{
    constexpr int width = Packed ? (Run * (int)sizeof(T) <= 16 ? Run : 16 / (int)sizeof(T)) : 1, bytes = width * (int)sizeof(T);
    const bool ok = is_inside(p.rows, row);
    const u64 from = p.base + (u64)row * (u64)p.row_step + (u64)col * (Packed ? (u64)sizeof(T) : (u64)p.col_step);
    TK_UNROLL
    for (int j = 0; j < Run; j += width) {
        const bool whole = ok && col + j >= p.cols.lo && col + j + width <= p.cols.hi;
        if (Packed && whole) {
            unpack(v + j, *global_pointer<const Pack<bytes>>(from + (u64)(j * (int)sizeof(T))));
        } else {
            TK_UNROLL
            for (int i = j; i < j + width; ++i) v[i] = ok ? element_of<T>(p, row, col + i) : T{};
        }
    }
}

template <class S> TK_FN S other_lane(S x, int distance)
{
    if constexpr (is_half<S>) return S{(u16)__shfl_xor_sync(~0u, (u32)x.bits, distance)};
    else return __shfl_xor_sync(~0u, x, distance);
}

// store_fragment of a layout whose threads hold the same columns of each of their rows.
template <class L, int RowAxis, int ColAxis, bool Packed, class T, class S, int ND, class F>
TK_FN void store_rows(int rank, const S* r, const Array<T, ND>& a, const i64 (&offset)[ND], const F& f)
{
    constexpr int run = Packed ? (L::run * (int)sizeof(T) <= 16 ? L::run : 2) : 1, bytes = run * (int)sizeof(T);
    const Plane p = plane<L::M, L::N, RowAxis, ColAxis>(a, offset);
    TK_UNROLL
    for (int x = 0; x < L::thread_rows; ++x) {
        const int row = L::row(rank, L::number(x, 0));
        const bool ok = is_inside(p.rows, row);
        u64 to = p.base + (u64)row * (u64)p.row_step + (u64)L::col(rank, 0) * (u64)p.col_step;
        int at = 0;  // where `to` is, in columns from the thread's first
        TK_UNROLL
        for (int y = 0; y < L::thread_cols; y += run) {
            const int i = L::number(x, y), col = L::col(rank, i), next = L::col(0, L::number(0, y));
            T out[run];
            TK_UNROLL
            for (int j = 0; j < run; ++j) out[j] = f(r[i + j], row, col + j);
            if constexpr (Packed) {
                const u64 here = to + (u64)(next * (int)sizeof(T));
                const bool whole = col >= p.cols.lo && col + run <= p.cols.hi;
                if (ok && whole) put(global_pointer<Pack<bytes>>(here), pack<bytes>(out));
                TK_UNROLL
                for (int j = 0; j < run - 1; ++j)
                    if (ok && !whole && is_inside(p.cols, col + j)) global_pointer<T>(here)[j] = out[j];
            } else {
                to += (u64)((i64)(next - at) * p.col_step);
                at = next;
                if (ok && is_inside(p.cols, col)) *global_pointer<T>(to) = out[0];
            }
        }
    }
}
// The same where the elements of a column lie side by side: neighbours of a column go out together, which lanes whose
// rows are neighbours exchange first.
template <class L, int RowAxis, int ColAxis, class T, class S, int ND, class F>
TK_FN void store_columns(int rank, const S* r, const Array<T, ND>& a, const i64 (&offset)[ND], const F& f)
{
    constexpr int run = L::run == 4 && sizeof(T) <= 4 ? 4 : 2, bytes = run * (int)sizeof(T);
    const Plane p = plane<L::M, L::N, RowAxis, ColAxis>(a, offset);
    const int odd = L::run == 2 ? rank / 4 % 2 : 0;  // of two lanes, the one that takes the second column
    TK_UNROLL
    for (int y = 0; y < L::thread_cols; y += L::run == 2 ? 2 : 1) {
        TK_UNROLL
        for (int x = 0; x < L::thread_rows; x += L::run == 2 ? 1 : run) {
            const int i = L::number(x, y), row = L::row(rank, i) - odd, col = L::col(rank, i) + odd;
            T out[run];
            if constexpr (L::run == 2) {
                const T first = f(r[i], row + odd, col - odd), second = f(r[i + 1], row + odd, col - odd + 1);
                const T other = other_lane(odd ? first : second, 4);
                out[0] = odd ? other : first;
                out[1] = odd ? second : other;
            } else {
                TK_UNROLL
                for (int j = 0; j < run; ++j) out[j] = f(r[L::number(x + j, y)], row + j, col);
            }
            const u64 to = p.base + (u64)(row * (int)sizeof(T)) + (u64)col * (u64)p.col_step;
            const bool ok = is_inside(p.cols, col), whole = row >= p.rows.lo && row + run <= p.rows.hi;
            if (ok && whole) put(global_pointer<Pack<bytes>>(to), pack<bytes>(out));
            TK_UNROLL
            for (int j = 0; j < run; ++j)
                if (ok && !whole && is_inside(p.rows, row + j)) global_pointer<T>(to)[j] = out[j];
        }
    }
}
// The same of a layout that only a unit knows: two registers go out together where they turn out to be neighbours.
template <class L, int RowAxis, int ColAxis, bool Packed, class T, class S, int ND, class F>
TK_FN void store_elements(int rank, const S* r, const Array<T, ND>& a, const i64 (&offset)[ND], const F& f)
{
    constexpr int run = Packed && L::registers % 2 == 0 ? 2 : 1, bytes = run * (int)sizeof(T);
    const Plane p = plane<L::M, L::N, RowAxis, ColAxis>(a, offset);
    TK_UNROLL
    for (int i = 0; i < L::registers; i += run) {
        const int row = L::row(rank, i), col = L::col(rank, i);
        if constexpr (run == 2) {
            const bool pair = L::row(rank, i + 1) == row && L::col(rank, i + 1) == col + 1 && col % 2 == 0;
            if (pair && is_held<L>(rank, i) && is_held<L>(rank, i + 1) && is_inside(p.rows, row) &&
                is_inside(p.cols, col) && is_inside(p.cols, col + 1)) {
                const T out[] = {f(r[i], row, col), f(r[i + 1], row, col + 1)};
                put(global_pointer<Pack<bytes>>(address(p, row, col)), pack<bytes>(out));
                continue;
            }
        }
        TK_UNROLL
        for (int j = i; j < i + run; ++j) {
            const int row = L::row(rank, j), col = L::col(rank, j);
            if (is_held<L>(rank, j) && is_inside(p.rows, row) && is_inside(p.cols, col))
                *global_pointer<T>(address(p, row, col)) = f(r[j], row, col);
        }
    }
}
// The elements under the tile = f(value, row, col) of each register; elements outside the array are dropped. Packed says
// of the array what it says in Feed; neighbours of a row then go out together.
template <class L, int RowAxis, int ColAxis, bool Packed, class T, class S, int ND, class F>
TK_FN void store_fragment(int rank, const S* r, const Array<T, ND>& a, const i64 (&offset)[ND], const F& f)
{
    if constexpr (is_unit_layout<L>) store_elements<L, RowAxis, ColAxis, Packed>(rank, r, a, offset, f);
    else store_rows<L, RowAxis, ColAxis, Packed>(rank, r, a, offset, f);
}
template <class T> struct Rounded {
    template <class S> TK_METHOD T operator()(S value, int, int) const { return cast<T>(value); }
};

// r = the elements under the tile, zero outside the array.
template <class L, int RowAxis, int ColAxis, class T, class S, int ND>
TK_FN void load_fragment(int rank, S* r, const Array<T, ND>& a, const i64 (&offset)[ND])
{
    const Plane p = plane<L::M, L::N, RowAxis, ColAxis>(a, offset);
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i) {
        const int row = L::row(rank, i), col = L::col(rank, i);
        r[i] = is_inside(p.rows, row) && is_inside(p.cols, col) ? cast<S>((T)*global_pointer<const T>(address(p, row, col))) : S{};
    }
}

// The same to and from a tile in memory with these element strides.
template <class L, int Stride0, int Stride1, class T, class S> TK_FN void write_fragment(int rank, const S* r, T* tile)
{
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i)
        if (is_held<L>(rank, i)) tile[L::row(rank, i) * Stride0 + L::col(rank, i) * Stride1] = cast<T>(r[i]);
}
template <class L, int Stride0, int Stride1, class T, class S> TK_FN void read_fragment(int rank, S* r, const T* tile)
{
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i)
        r[i] = is_held<L>(rank, i) ? cast<S>((T)tile[L::row(rank, i) * Stride0 + L::col(rank, i) * Stride1]) : S{};
}

}  // namespace tk
#endif
#endif
