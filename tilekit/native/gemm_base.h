// What every way to compute a tile product shares: operands, one term of a sum, what is made of a sum, the definition.
#ifndef TILEKIT_NATIVE_GEMM_BASE_H
#define TILEKIT_NATIVE_GEMM_BASE_H
#include "fma.h"

namespace tk {

// An operand: its element (i, j) lies at p[i * S0 + j * S1].
template <class T, int S0, int S1> struct Operand {
    typedef T Element;
    typedef remove_const_t<T> Value;
    static constexpr int stride0 = S0, stride1 = S1;
    T* p;
    TK_METHOD T& at(int i, int j) const { return p[(i64)i * S0 + (i64)j * S1]; }
    TK_METHOD Operand from(int i, int j) const { return {p + (i64)i * S0 + (i64)j * S1}; }
    // Rows of consecutive elements of type U.
    template <class U>
    static constexpr bool rows_of = S1 == 1 && (is_same<T, U>::value || is_same<T, const U>::value);
};

// Writes out(i, j) from the sum of its products.
template <class Acc, class C, class O>
TK_FN void gemm_finish(Acc sum, const C& c, const O& out, int i, int j, Acc alpha, Acc beta)
{
    Acc value = alpha * sum;
    if (beta != 0) value = value + beta * cast<Acc>((typename C::Value)c.at(i, j));
    out.at(i, j) = cast<typename O::Value>(value);
}

// One term of a sum.
template <class Acc> TK_FN Acc gemm_term(Acc a, Acc b, Acc sum)
{
#if TK_HAS_FMA
    return fma_ieee(a, b, sum);
#else
    return a * b + sum;
#endif
}

// The definition, one element at a time, by any team; what every other path is tested against.
template <int M, int N, int K, class Acc, class TA, int AS0, int AS1, class TB, int BS0, int BS1, class TC, int CS0,
          int CS1, class TO, int OS0, int OS1, class TM>
TK_FN void gemm_plain(TM team, const TA* a, const TB* b, const TC* c, TO* out, Acc alpha, Acc beta)
{
    const Operand<const TA, AS0, AS1> oa{a};
    const Operand<const TB, BS0, BS1> ob{b};
    for (int e = team.rank(); e < M * N; e += team.size()) {
        const int i = e / N, j = e % N;
        Acc sum = 0;
        for (int k = 0; k < K; ++k) sum = gemm_term(cast<Acc>((TA)oa.at(i, k)), cast<Acc>((TB)ob.at(k, j)), sum);
        gemm_finish(sum, Operand<const TC, CS0, CS1>{c}, Operand<TO, OS0, OS1>{out}, i, j, alpha, beta);
    }
}

}  // namespace tk
#endif
