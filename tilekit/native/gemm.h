// The tile product out = alpha * (a @ b) + beta * c for compile-time shapes and any element strides.
//
// Every element is the sum over k = 0, 1, ... K-1 of a[i, k] * b[k, j] from 0 by fused multiply-adds in Acc, then
// alpha * sum + beta * c unfused in Acc, rounded once to the type of out. Blocking, packing, vector width and tails
// never change that order, so they never change the bits (where the target lacks FMA instructions, products are
// rounded too). beta == 0 means that c is not read.
#ifndef TILEKIT_NATIVE_GEMM_H
#define TILEKIT_NATIVE_GEMM_H
#include "gemm_team.h"
#include "vector.h"

namespace tk {

#ifndef TK_CUDA
// A register block is kRows rows (or one less) by kVectors vectors of sums; the registers left hold a row of b and a
// broadcast element of a.
constexpr int kVectors = 2, kRows = TK_VECTOR_REGISTERS == 32 ? 8 : 6;
constexpr int kChunk = 128;           // the most rows that share one packed panel of b
constexpr int kPanelBytes = 16384;    // the most of b that is packed at once, and of a that is widened at once
// Rows that share a panel: fewer if a must be widened, so that this is done once for all panels.
template <int K, class Acc, class TA> constexpr int chunk_rows()
{
    constexpr int fit = kPanelBytes / (K * (int)sizeof(Acc)) / kRows * kRows;
    return is_same<TA, Acc>::value || fit > kChunk || fit < kRows ? kChunk : fit;
}

// One thread's product of up to kChunk rows. Panels of b, kVectors vectors wide, are packed (and widened, transposed,
// padded to whole vectors) unless they are read too seldom for that to pay. A panel too long to be packed at once is
// cut along k; the sums wait in memory between the pieces.
template <int M, int N, int K, class Acc, class A, class B, class C, class O> struct Gemm {
    typedef typename Vector<Acc>::type Vec;
    static constexpr int W = lanes<Acc>, NR = kVectors * W, row_bytes = NR * (int)sizeof(Acc);
    static constexpr bool split = K * row_bytes > kPanelBytes;
    static constexpr int KB = split ? kPanelBytes / 2 / row_bytes : K;
    static constexpr bool convert_a = !is_same<typename A::Element, const Acc>::value;
    static constexpr bool whole_a = convert_a && M * K * (int)sizeof(Acc) <= kPanelBytes;
    static constexpr bool direct_b = B::template rows_of<Acc> && M < 24;
    static constexpr bool dense_out = O::template rows_of<Acc> && C::template rows_of<Acc>;
    // M rows as `full` blocks of R and the rest of R - 1.
    static constexpr int blocks = (M + kRows - 1) / kRows, R = (M + blocks - 1) / blocks;
    static constexpr int full = M - blocks * (R - 1);

    A a;
    B b;
    C c;
    O out;
    Acc alpha, beta;
    alignas(64) Acc panel[direct_b && N % NR == 0 ? 1 : KB * NR];
    alignas(64) Acc wide_a[whole_a ? M * K : 1];
    alignas(64) Acc waiting[split && !(direct_b && N % NR == 0) ? M * NR : 1];

    // sums[r][v] += a(r, 0..kb) @ b(0..kb, v), b's rows lying ldb elements apart.
    template <int RR, int V, class X>
    static TK_METHOD void block(Vec (&sums)[RR][V], const X& x, const Acc* TK_RESTRICT rows, i64 ldb, int kb)
    {
        for (int k = 0; k < kb; ++k) {
            Vec row[V];
            TK_UNROLL
            for (int v = 0; v < V; ++v) row[v] = *(const Vec*)(rows + k * ldb + v * W);
            TK_UNROLL
            for (int r = 0; r < RR; ++r) {
                const Vec e = broadcast<Acc>((Acc)x.at(r, k));
                TK_UNROLL
                for (int v = 0; v < V; ++v) sums[r][v] = multiply_add<Acc>(e, row[v], sums[r][v]);
            }
        }
    }
    // Widens a(i0 .. i0 + count, k0 .. k0 + kb) into rows of `to`, `ld` apart.
    TK_METHOD void widen_a(Acc* TK_RESTRICT to, int ld, int i0, int count, int k0, int kb) const
    {
        for (int r = 0; r < count; ++r) {
            if constexpr (A::stride1 == 1) widen_run(to + r * ld, &a.at(i0 + r, k0), kb);
            else
                for (int k = 0; k < kb; ++k) to[r * ld + k] = cast<Acc>((typename A::Value)a.at(i0 + r, k0 + k));
        }
    }
    // Finishes a register block of which `width` columns exist.
    template <int RR, int V> TK_METHOD void finish(const Vec (&sums)[RR][V], int i0, int j0, int width) const
    {
        TK_UNROLL
        for (int r = 0; r < RR; ++r) {
            if (dense_out && width == V * W) {
                TK_UNROLL
                for (int v = 0; v < V; ++v) {
                    Vec value = broadcast<Acc>(alpha) * sums[r][v];
                    const int j = j0 + v * W;
                    if (beta != 0) value = value + broadcast<Acc>(beta) * *(const Vec*)&c.at(i0 + r, j);
                    *(Vec*)&out.at(i0 + r, j) = value;
                }
            } else {
                Acc line[V * W];
                TK_UNROLL
                for (int v = 0; v < V; ++v) *(Vec*)(line + v * W) = sums[r][v];
                for (int j = 0; j < width; ++j) gemm_finish(line[j], c, out, i0 + r, j0 + j, alpha, beta);
            }
        }
    }
    // Rows i0 .. i0 + RR of a panel, for the kb products from k0.
    template <int RR, int V>
    TK_METHOD void rows(const Acc* TK_RESTRICT p, i64 ldb, int i0, int j0, int width, int k0, int kb)
    {
        Vec sums[RR][V];
        TK_UNROLL
        for (int r = 0; r < RR; ++r) {
            TK_UNROLL
            for (int v = 0; v < V; ++v) sums[r][v] = k0 ? *(const Vec*)(waiting + (i0 + r) * NR + v * W) : Vec{};
        }
        if constexpr (whole_a) {
            block<RR, V>(sums, Operand<const Acc, K, 1>{wide_a + i0 * K + k0}, p, ldb, kb);
        } else if constexpr (convert_a) {
            alignas(64) Acc strip[RR * KB];
            widen_a(strip, KB, i0, RR, k0, kb);
            block<RR, V>(sums, Operand<const Acc, KB, 1>{strip}, p, ldb, kb);
        } else {
            block<RR, V>(sums, a.from(i0, k0), p, ldb, kb);
        }
        if (k0 + kb == K) {
            finish<RR, V>(sums, i0, j0, width);
            return;
        }
        TK_UNROLL
        for (int r = 0; r < RR; ++r) {
            TK_UNROLL
            for (int v = 0; v < V; ++v) *(Vec*)(waiting + (i0 + r) * NR + v * W) = sums[r][v];
        }
    }
    template <int V> TK_METHOD void all_rows(const Acc* p, i64 ldb, int j0, int width, int k0, int kb)
    {
        for (int i = 0; i < full; ++i) rows<R, V>(p, ldb, i * R, j0, width, k0, kb);
        if constexpr (full < blocks)
            for (int i = full; i < blocks; ++i) rows<R - 1, V>(p, ldb, i * (R - 1) + full, j0, width, k0, kb);
    }
    // Packs b(k0 .. k0 + kb, j0 .. j0 + width), padded with zeros to whole vectors.
    template <int V> TK_METHOD void pack(int j0, int width, int k0, int kb)
    {
        if constexpr (B::stride0 == 1 && B::stride1 != 1) {
            Acc line[KB];  // a column, widened along its consecutive elements
            for (int j = 0; j < V * W; ++j) {
                if (j < width) widen_run(line, &b.at(k0, j0 + j), kb);
                else
                    for (int k = 0; k < kb; ++k) line[k] = 0;
                for (int k = 0; k < kb; ++k) panel[k * NR + j] = line[k];
            }
        } else {
            for (int k = 0; k < kb; ++k) {
                if constexpr (B::stride1 == 1) widen_run(panel + k * NR, &b.at(k0 + k, j0), width);
                else
                    for (int j = 0; j < width; ++j) panel[k * NR + j] = cast<Acc>((typename B::Value)b.at(k0 + k, j0 + j));
                for (int j = width; j < V * W; ++j) panel[k * NR + j] = 0;
            }
        }
    }
    template <int V> TK_METHOD void columns(int j0, int width)
    {
        if constexpr (direct_b)
            if (width == V * W) return all_rows<V>(&b.at(0, j0), B::stride0, j0, width, 0, K);
        for (int k0 = 0; k0 < K; k0 += KB) {
            const int kb = K - k0 < KB ? K - k0 : KB;
            pack<V>(j0, width, k0, kb);
            all_rows<V>(panel, NR, j0, width, k0, kb);
        }
    }
    TK_METHOD void run()
    {
        if constexpr (whole_a) widen_a(wide_a, K, 0, M, 0, K);
        for (int j0 = 0; j0 + NR <= N; j0 += NR) columns<kVectors>(j0, NR);
        if constexpr (N % NR != 0) columns<(N % NR + W - 1) / W>(N - N % NR, N % NR);
    }
};

template <int M, int N, int K, class Acc, class A, class B, class C, class O>
TK_FN void gemm_rows(const A& a, const B& b, const C& c, const O& out, Acc alpha, Acc beta)
{
    Gemm<M, N, K, Acc, A, B, C, O> g;
    g.a = a;
    g.b = b;
    g.c = c;
    g.out = out;
    g.alpha = alpha;
    g.beta = beta;
    g.run();
}
#endif

// out = alpha * (a @ b) + beta * c with a of M x K, b of K x N, c and out of M x N elements, whose element strides (of
// any sign, also 0) are template arguments. c may be out, and is not read if beta == 0; a and b must not overlap out.
template <int M, int N, int K, class Acc, class TA, int AS0, int AS1, class TB, int BS0, int BS1, class TC, int CS0,
          int CS1, class TO, int OS0, int OS1, class TM>
TK_TILE void gemm(TM team, const TA* a, const TB* b, const TC* c, TO* out, Acc alpha, Acc beta)
{
    static_assert(is_same<Acc, f32>::value || is_same<Acc, f64>::value, "products are summed in f32 or f64");
    const Operand<const TA, AS0, AS1> oa{a};
    const Operand<const TB, BS0, BS1> ob{b};
    const Operand<const TC, CS0, CS1> oc{c};
    const Operand<TO, OS0, OS1> oo{out};
    if constexpr (!TM::alone) team_gemm<M, N, K, Acc>(team, oa, ob, oc, oo, alpha, beta);
#ifndef TK_CUDA
    else {
        constexpr int chunk = chunk_rows<K, Acc, TA>(), done = M / chunk * chunk;
        for (int i = 0; i + chunk <= M; i += chunk)
            gemm_rows<chunk, N, K>(oa.from(i, 0), ob, c ? oc.from(i, 0) : oc, oo.from(i, 0), alpha, beta);
        if constexpr (done < M)
            gemm_rows<M - done, N, K>(oa.from(done, 0), ob, c ? oc.from(done, 0) : oc, oo.from(done, 0), alpha, beta);
    }
#endif
}

}  // namespace tk
#endif
