// Products in IEEE f32: each thread multiplies a block of registers, k ascending, one fused multiply-add a term.
#ifndef TILEKIT_NATIVE_MMA_FMA_H
#define TILEKIT_NATIVE_MMA_FMA_H
#include "fma.h"
#include "lines.h"
#include "operand.h"

#ifdef TK_CUDA
namespace tk {

// v[j][i] = number i of a thread's rows or columns of a factor, at position k + j of the sum; `at` is the thread's first.
template <class X, class S> TK_FN void load_runs(f32 (&v)[4][X::count], const S& at, int k)
{
    typedef decltype(at.from) Op;
    constexpr bool runs = Op::shared && is_same<typename Op::Element, f32>::value;
    static_assert(X::at(3) == 3, "a thread must hold runs of four");
    if constexpr (runs && Op::k_major) {
        TK_UNROLL
        for (int i = 0; i < X::count; ++i)
            read_shared(at.address(X::at(i), k), v[0][i], v[1][i], v[2][i], v[3][i]);
    } else if constexpr (runs) {
        TK_UNROLL
        for (int j = 0; j < 4; ++j) {
            TK_UNROLL
            for (int i = 0; i < X::count; i += 4)
                read_shared(at.address(X::at(i), k + j), v[j][i], v[j][i + 1], v[j][i + 2], v[j][i + 3]);
        }
    } else {
        TK_UNROLL
        for (int j = 0; j < 4; ++j) {
            TK_UNROLL
            for (int i = 0; i < X::count; ++i) v[j][i] = at.template at<f32>(X::at(i), k + j);
        }
    }
}

template <class L, int Depth, class A, class B>
TK_FN void multiply_fma(int rank, f32* sums, const A& a, const B& b)
{
    typedef Lines<L, 0> Rows;
    typedef Lines<L, 1> Columns;
    static_assert(Depth % 4 == 0, "the depth must be whole runs");
    // L::first() of a thread, written so that the compiler does not keep one number for this and for the end of the kernel.
    const Spot<A, Rows::template movable<A>()> at_a{a, Rows::of_warp(rank) + rank % 32 / Columns::lanes * 4, 0};
    const Spot<B, Columns::template movable<B>()> at_b{b, Columns::of_warp(rank) + rank % Columns::lanes * 4, 0};
    // There and back along b's values, so that two neighbours in time share one: which registers the compiler then gives
    // them decides how often a multiply-add waits for its operands. Two factors along k take more registers.
    TK_UNROLL_BY((A::k_major && B::k_major ? 1 : 2))
    for (int k = 0; k < Depth; k += 4) {
        f32 va[4][Rows::count], vb[4][Columns::count];
        load_runs<Rows>(va, at_a, k);
        load_runs<Columns>(vb, at_b, k);
        TK_UNROLL
        for (int j = 0; j < 4; ++j) {
            TK_UNROLL
            for (int x = 0; x < Rows::count; ++x) {
                TK_UNROLL
                for (int z = 0; z < Columns::count; ++z) {
                    const int y = x % 2 ? Columns::count - 1 - z : z, i = register_at<L>(x, y);
                    sums[i] = fma_ieee(va[j][x], vb[j][y], sums[i]);
                }
            }
        }
    }
}

}  // namespace tk
#endif
#endif
