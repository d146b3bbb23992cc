// The part of an array under a tile of rows and columns.
#ifndef TILEKIT_NATIVE_PLANE_H
#define TILEKIT_NATIVE_PLANE_H
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
    Plane p{address_of(a), a.stride[RowAxis], a.stride[ColAxis], {}, {}};
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
TK_FN u64 address(const Plane& p, int row, int col) { return p.base + (u64)row * p.row_step + (u64)col * p.col_step; }

template <class T> TK_FN T element_of(const Plane& p, int row, int col)
{
    return is_inside(p.rows, row) && is_inside(p.cols, col) ? (T)*global_pointer<const T>(address(p, row, col)) : T{};
}

}  // namespace tk
#endif
#endif
