// The operands of a tile product: where they lie, and the numbers that scale it.
#ifndef TILEKIT_NATIVE_OPERAND_H
#define TILEKIT_NATIVE_OPERAND_H
#include "tile.h"

namespace tk {

// Stands for an element stride that is known only at run time.
constexpr int kRunTime = -0x7fffffff - 1;

// A matrix: its element (i, j) lies at p[i * S0 + j * S1]; where S0 is kRunTime, rows lie `row` elements apart.
template <class T, int S0, int S1> struct Operand {
    typedef T Element;
    typedef remove_const_t<T> Value;
    static constexpr int stride0 = S0, stride1 = S1;
    static constexpr bool in_array = S0 == kRunTime;  // possibly: see load_operand
    T* p;
    i64 row;
    T* next;  // the same operand of the next product, whose rows lie as far apart; null where nothing is known of it
    TK_METHOD i64 rows_apart() const { return S0 == kRunTime ? row : S0; }
    TK_METHOD T& at(int i, int j) const { return p[(i64)i * rows_apart() + (i64)j * S1]; }
    TK_METHOD Operand from(int i, int j) const { return {&at(i, j), row, nullptr}; }
    // Rows of consecutive elements of type U.
    template <class U>
    static constexpr bool rows_of = S1 == 1 && (is_same<T, U>::value || is_same<T, const U>::value);
};
// A tile as an operand.
template <int S0, int S1, class T> TK_FN Operand<T, S0, S1> operand(T* p) { return {p, 0, nullptr}; }

// A tile of an array as an operand that is only read while the array does not change: the array's own memory where
// that holds the whole tile in rows of consecutive elements, else a copy in `storage`. The next product's tile lies
// `step` elements further. One function serves tiles of all shapes, which keeps kernels quick to compile.
template <class T>
TK_COLD Operand<const T, kRunTime, 1> load_operand(T* storage, const Array<T, 2>& a, const i64 (&offset)[2],
                                                   const i64 (&step)[2], int rows, int columns)
{
    const Range down = inside(offset[0], a.shape[0], rows), across = inside(offset[1], a.shape[1], columns);
    const u64 base = (u64)a.data + (u64)offset[0] * (u64)a.stride[0] + (u64)offset[1] * (u64)a.stride[1];
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

// A factor that is known when a kernel is compiled: multiplying by it costs nothing.
template <int Value> struct Fixed {};
template <class T> TK_FN bool is_zero(T x) { return x == 0; }
template <int Value> TK_FN constexpr bool is_zero(Fixed<Value>) { return Value == 0; }
template <class T> TK_FN T scaled(T factor, T x) { return factor * x; }
template <int Value, class T> TK_FN T scaled(Fixed<Value>, T x)
{
    static_assert(Value == 0 || Value == 1, "a fixed factor is 0, and then its product is not asked for, or 1");
    return x;
}

}  // namespace tk
#endif
