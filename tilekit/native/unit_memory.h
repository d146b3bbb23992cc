// Sums in registers of which only a unit of mathdx.h knows where they are, from and to arrays. A unit's layout L says: register
// i holds element (L::row(i), L::col(i)) of a tile of L::M x L::N, or nothing.
#ifndef TILEKIT_NATIVE_UNIT_MEMORY_H
#define TILEKIT_NATIVE_UNIT_MEMORY_H
#include "atomic.h"
#include "cast.h"
#include "pack.h"
#include "plane.h"

#ifdef TK_CUDA
namespace tk {

// The array's elements under the tile = r; those outside are dropped. Packed: rows of the array have their elements side by
// side, at multiples of 16 bytes, and so has the tile; two registers then go out together where they turn out to be neighbours.
template <class L, bool Packed, class T, int ND>
TK_FN void store_unit(const T* r, const Array<T, ND>& a, const i64 (&offset)[ND])
{
    constexpr int run = Packed && L::registers % 2 == 0 ? 2 : 1, bytes = run * (int)sizeof(T);
    const Plane p = plane<L::M, L::N, 0, 1>(a, offset);
    TK_UNROLL
    for (int i = 0; i < L::registers; i += run) {
        const int row = L::row(i), col = L::col(i);
        if constexpr (run == 2) {
            const bool pair = L::row(i + 1) == row && L::col(i + 1) == col + 1 && col % 2 == 0;
            if (pair && L::is_held(i) && L::is_held(i + 1) && is_inside(p.rows, row) && is_inside(p.cols, col) &&
                is_inside(p.cols, col + 1)) {
                put(global_pointer<Pack<bytes>>(address(p, row, col)), pack<bytes>(r + i));
                continue;
            }
        }
        TK_UNROLL
        for (int j = i; j < i + run; ++j) {
            const int row = L::row(j), col = L::col(j);
            if (L::is_held(j) && is_inside(p.rows, row) && is_inside(p.cols, col))
                *global_pointer<T>(address(p, row, col)) = r[j];
        }
    }
}
// r = the elements under the tile, zero outside the array.
template <class L, class T, int ND>
TK_FN void load_unit(T* r, const Array<T, ND>& a, const i64 (&offset)[ND])
{
    const Plane p = plane<L::M, L::N, 0, 1>(a, offset);
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i) r[i] = element_of<T>(p, L::row(i), L::col(i));
}
// The array's elements under the tile += r, each atomically; those outside are dropped.
template <class L, class T, int ND>
TK_FN void add_unit(const T* r, const Array<T, ND>& a, const i64 (&offset)[ND])
{
    const Plane p = plane<L::M, L::N, 0, 1>(a, offset);
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i) {
        const int row = L::row(i), col = L::col(i);
        if (L::is_held(i) && is_inside(p.rows, row) && is_inside(p.cols, col))
            atomic_add(global_pointer<T>(address(p, row, col)), r[i]);
    }
}

}  // namespace tk
#endif
#endif
