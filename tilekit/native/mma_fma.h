// Products in IEEE f32: each thread multiplies a block of registers, k ascending, one fused multiply-add a term.
#ifndef TILEKIT_NATIVE_MMA_FMA_H
#define TILEKIT_NATIVE_MMA_FMA_H
#include "fragment.h"
#include "fma.h"
#include "operand.h"

#ifdef TK_CUDA
namespace tk {

// v[j][i] = a thread's value number i of a factor, `Lanes` threads sharing an axis, at position j of the sum after dk; `at`
// is the thread's first row or column.
template <int Lanes, int Count, class S> TK_FN void load_runs(f32 (&v)[4][Count], const S& at, int dk)
{
    typedef decltype(at.from) Op;
    constexpr bool runs = Op::shared && is_same<typename Op::Element, f32>::value;
    if constexpr (runs && Op::k_major) {
        TK_UNROLL
        for (int i = 0; i < Count; ++i)
            read_shared(at.address(i / 4 * (4 * Lanes) + i % 4, dk), v[0][i], v[1][i], v[2][i], v[3][i]);
    } else if constexpr (runs) {
        TK_UNROLL
        for (int j = 0; j < 4; ++j) {
            TK_UNROLL
            for (int i = 0; i < Count; i += 4)
                read_shared(at.address(i * Lanes, dk + j), v[j][i], v[j][i + 1], v[j][i + 2], v[j][i + 3]);
        }
    } else {
        TK_UNROLL
        for (int j = 0; j < 4; ++j) {
            TK_UNROLL
            for (int i = 0; i < Count; ++i) v[j][i] = at.template at<f32>(i / 4 * (4 * Lanes) + i % 4, dk + j);
        }
    }
}

template <class L, int Depth, class A, class B>
TK_FN void multiply_fma(int rank, f32* sums, const A& a, const B& b)
{
    static_assert(Depth % 4 == 0, "the depth must be whole runs");
    const Spot<A, A::movable(L::WarpsM, L::LanesM * L::TM)> at_a{a, L::first_row(rank), 0};
    const Spot<B, B::movable(L::WarpsN, L::LanesN * L::TN)> at_b{b, L::first_col(rank), 0};
    // There and back along b's values, so that two neighbours in time share one: which registers the compiler then gives
    // them decides how often a multiply-add waits for its operands. Two factors along k take more registers.
    TK_UNROLL_BY((A::k_major && B::k_major ? 1 : 2))
    for (int k = 0; k < Depth; k += 4) {
        f32 va[4][L::TM], vb[4][L::TN];
        load_runs<L::LanesM>(va, at_a, k);
        load_runs<L::LanesN>(vb, at_b, k);
        TK_UNROLL
        for (int j = 0; j < 4; ++j) {
            TK_UNROLL
            for (int x = 0; x < L::TM; ++x) {
                TK_UNROLL
                for (int z = 0; z < L::TN; ++z) {
                    const int y = x % 2 ? L::TN - 1 - z : z;
                    sums[x * L::TN + y] = fma_ieee(va[j][x], vb[j][y], sums[x * L::TN + y]);
                }
            }
        }
    }
}

}  // namespace tk
#endif
#endif
