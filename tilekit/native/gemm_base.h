// What every way to compute a tile product shares: operands, one term of a sum, what is made of a sum, the definition.
#ifndef TILEKIT_NATIVE_GEMM_BASE_H
#define TILEKIT_NATIVE_GEMM_BASE_H
#include "fma.h"

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

// Writes out(i, j) from the sum of its products.
template <class Acc, class C, class O, class Alpha, class Beta>
TK_FN void gemm_finish(Acc sum, const C& c, const O& out, int i, int j, Alpha alpha, Beta beta)
{
    Acc value = scaled(alpha, sum);
    if (!is_zero(beta)) value = value + scaled(beta, cast<Acc>((typename C::Value)c.at(i, j)));
    out.at(i, j) = cast<typename O::Value>(value);
}

// One term of a sum. Integers are summed unsigned, so that they wrap.
template <class Acc> TK_FN Acc gemm_term(Acc a, Acc b, Acc sum)
{
#if TK_HAS_FMA
    if constexpr (Num<Acc>::is_float) return fma_ieee(a, b, sum);
    else return a * b + sum;
#else
    return a * b + sum;
#endif
}

// The definition, one element at a time, by any team; what every other path is tested against.
template <int M, int N, int K, class Acc, class TM, class A, class B, class C, class O, class Alpha, class Beta>
TK_FN void gemm_plain(TM team, const A& a, const B& b, const C& c, const O& out, Alpha alpha, Beta beta)
{
    for (int e = team.rank(); e < M * N; e += team.size()) {
        const int i = e / N, j = e % N;
        Acc sum = 0;
        for (int k = 0; k < K; ++k)
            sum = gemm_term(cast<Acc>((typename A::Value)a.at(i, k)), cast<Acc>((typename B::Value)b.at(k, j)), sum);
        gemm_finish(sum, c, out, i, j, alpha, beta);
    }
}

}  // namespace tk
#endif
