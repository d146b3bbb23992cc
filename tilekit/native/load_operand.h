// Tiles of arrays as operands of the CPU's products.
#ifndef TILEKIT_NATIVE_LOAD_OPERAND_H
#define TILEKIT_NATIVE_LOAD_OPERAND_H
#include "gemm_base.h"
#include "tile.h"

#ifndef TK_CUDA
namespace tk {

// A tile of an array as an operand that is only read while the array does not change: the array's own memory where
// that holds the whole tile in rows of consecutive elements, else a copy in `storage`. The next product's tile lies
// `step` elements further. One function serves tiles of all shapes, which keeps kernels quick to compile.
template <class T>
TK_COLD Operand<const T, kRunTime, 1> load_operand(T* storage, const Array<T, 2>& a, const i64 (&offset)[2],
                                                   const i64 (&step)[2], int rows, int columns)
{
    const Range down = inside(offset[0], a.shape[0], rows), across = inside(offset[1], a.shape[1], columns);
    const u64 base = address_of(a) + (u64)offset[0] * (u64)a.stride[0] + (u64)offset[1] * (u64)a.stride[1];
    const i64 size = sizeof(T), next[] = {offset[0] + step[0], offset[1] + step[1]};
    if (is_whole(down, rows) && is_whole(across, columns) && a.stride[1] == size && a.stride[0] % size == 0) {
        const bool more = is_whole(inside(next[0], a.shape[0], rows), rows) &&
                          is_whole(inside(next[1], a.shape[1], columns), columns);
        const u64 further = base + (u64)step[0] * (u64)a.stride[0] + (u64)step[1] * (u64)size;
        return {(const T*)base, a.stride[0] / size, more ? (const T*)further : nullptr};
    }
    for (int i = 0; i < rows; ++i) {
        const bool there = i >= down.lo && i < down.hi;
        load_row(storage + (i64)i * columns, 1, base + (u64)i * (u64)a.stride[0], a.stride[1], there ? across.lo : 0,
                 there ? across.hi : 0, columns);
    }
    return {storage, columns, nullptr};
}

}  // namespace tk
#endif
#endif
