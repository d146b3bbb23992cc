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
constexpr int kPackBytes = 65536;    // the most of b that is packed at once
constexpr int kChunk = 128;          // the most rows whose sums wait in memory

// A panel of b is kVectors vectors wide. One that is too long to be packed at once is cut along k; the sums wait in
// memory between the pieces.
template <int K> constexpr bool cuts_k = K * kVectors * TK_VECTOR_BYTES > kPackBytes;

// The first divisor of n from `least` on.
constexpr int divisor(int n, int least) { return n % least ? divisor(n, least + 1) : least; }

// Fetches a matrix of Rows rows of RowBytes bytes into the second-level cache, a part in each of Steps steps.
template <int Rows, int RowBytes, int Steps> struct Ahead {
    static constexpr int line = 64, width = (RowBytes + line - 1) / line, lines = Rows * width;
    static constexpr int wanted = (lines + Steps - 1) / Steps;
    static constexpr int piece = divisor(width, wanted < width ? wanted : width);  // lines of one row at once
    const char* start;  // null: nothing to fetch
    i64 row_bytes;
    int done;
    TK_METHOD void step()
    {
        for (int left = wanted; start && left > 0 && done < lines; left -= piece, done += piece) {
            const char* p = start + done / width * row_bytes + done % width * line;
            for (int i = 0; i < piece; ++i) __builtin_prefetch(p + i * line, 0, 2);
        }
    }
};

// One thread's product. All panels of b that fit are packed (and widened, transposed, padded to whole vectors), unless
// they are read too seldom for that to pay; then each block of rows of a goes past them all. Rows that are not there in
// the accumulator's type, or lie in an array, are copied first: an array's rows are often a power of two apart, where
// few of them find a place in the cache at the same time. Meanwhile what the next product needs is fetched.
template <int M, int N, int K, class Acc, class A, class B, class C, class O, class Alpha, class Beta> struct Gemm {
    typedef typename Vector<Acc>::type Vec;
    static constexpr int W = lanes<Acc>, NR = kVectors * W, tail = N % NR;
    static constexpr bool cut = cuts_k<K>;
    static constexpr int KB = cut ? kPackBytes / 2 / (NR * (int)sizeof(Acc)) : K;
    static constexpr int apart = KB * NR + NR;  // panels, by a row more so that they do not share sets of the cache
    static constexpr int fitting = cut ? 1 : kPackBytes / (KB * NR * (int)sizeof(Acc));
    static constexpr int panels = (N + NR - 1) / NR, group = panels < fitting ? panels : fitting;
    static constexpr bool copy_a = A::in_array || !is_same<typename A::Value, Acc>::value;
    // The columns of b that are not packed.
    static constexpr bool seldom = B::template rows_of<Acc> && M < 24 && !(cut && copy_a);
    static constexpr int direct = !seldom ? 0 : tail % W ? N - tail : N;
    static constexpr bool dense_out = O::template rows_of<Acc> && C::template rows_of<Acc>;
    // M rows as `full` blocks of R and the rest of R - 1.
    static constexpr int blocks = (M + kRows - 1) / kRows, R = (M + blocks - 1) / blocks;
    static constexpr int full = M - blocks * (R - 1);

    A a;
    B b;
    C c;
    O out;
    Alpha alpha;
    Beta beta;
    Ahead<M, K * (int)sizeof(typename A::Value), blocks * panels> next_a;
    Ahead<K, N * (int)sizeof(typename B::Value), blocks * panels> next_b;
    alignas(64) Acc packed[direct == N ? 1 : group * apart];
    alignas(64) Acc strip[copy_a ? R * KB : 1];
    alignas(64) Acc waiting[cut ? M * NR : 1];

    // sums[r][v] += x(r, 0..kb) @ b(0..kb, v), b's rows lying ldb elements apart.
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
    // Copies a(i0 .. i0 + count, k0 .. k0 + kb) to the strip.
    TK_METHOD void copy_rows(int i0, int count, int k0, int kb)
    {
        for (int r = 0; r < count; ++r) {
            if constexpr (A::stride1 == 1) widen_run(strip + r * KB, &a.at(i0 + r, k0), kb);
            else
                for (int k = 0; k < kb; ++k) strip[r * KB + k] = cast<Acc>((typename A::Value)a.at(i0 + r, k0 + k));
        }
    }
    // Finishes a register block of which Width columns exist.
    template <int RR, int Width, int V> TK_METHOD void finish(const Vec (&sums)[RR][V], int i0, int j0) const
    {
        TK_UNROLL
        for (int r = 0; r < RR; ++r) {
            if constexpr (dense_out && Width == V * W) {
                TK_UNROLL
                for (int v = 0; v < V; ++v) {
                    const int j = j0 + v * W;
                    Vec value = scaled_vector(alpha, sums[r][v]);
                    if (!is_zero(beta)) value = value + scaled_vector(beta, *(const Vec*)&c.at(i0 + r, j));
                    *(Vec*)&out.at(i0 + r, j) = value;
                }
            } else {
                Acc line[V * W];
                TK_UNROLL
                for (int v = 0; v < V; ++v) *(Vec*)(line + v * W) = sums[r][v];
                for (int j = 0; j < Width; ++j) gemm_finish(line[j], c, out, i0 + r, j0 + j, alpha, beta);
            }
        }
    }
    static TK_METHOD Vec scaled_vector(Acc factor, Vec x) { return broadcast<Acc>(factor) * x; }
    template <int Value> static TK_METHOD Vec scaled_vector(Fixed<Value> factor, Vec x) { return scaled(factor, x); }

    // Rows i0 .. i0 + RR by Width columns from j0, for the kb products from k0.
    template <int RR, int Width>
    TK_METHOD void rows(const Acc* TK_RESTRICT p, i64 ldb, int i0, int j0, int k0, int kb)
    {
        constexpr int V = (Width + W - 1) / W;
        if constexpr (A::in_array) next_a.step();
        if constexpr (B::in_array) next_b.step();
        Vec sums[RR][V];
        TK_UNROLL
        for (int r = 0; r < RR; ++r) {
            TK_UNROLL
            for (int v = 0; v < V; ++v) sums[r][v] = k0 ? *(const Vec*)(waiting + (i0 + r) * NR + v * W) : Vec{};
        }
        if constexpr (copy_a) block<RR, V>(sums, operand<KB, 1>((const Acc*)strip), p, ldb, kb);
        else block<RR, V>(sums, a.from(i0, k0), p, ldb, kb);
        if (k0 + kb == K) {
            finish<RR, Width>(sums, i0, j0);
            return;
        }
        TK_UNROLL
        for (int r = 0; r < RR; ++r) {
            TK_UNROLL
            for (int v = 0; v < V; ++v) *(Vec*)(waiting + (i0 + r) * NR + v * W) = sums[r][v];
        }
    }
    // The same for all columns from j0 to `end`; their panels lie `step` elements apart.
    template <int RR>
    TK_METHOD void all_columns(const Acc* p, i64 step, i64 ldb, int i0, int j0, int end, int k0, int kb)
    {
        if constexpr (copy_a) copy_rows(i0, RR, k0, kb);
        for (; j0 + NR <= end; j0 += NR, p += step) rows<RR, NR>(p, ldb, i0, j0, k0, kb);
        if constexpr (tail != 0)
            if (j0 < end) rows<RR, tail>(p, ldb, i0, j0, k0, kb);
    }
    TK_METHOD void all_rows(const Acc* p, i64 step, i64 ldb, int j0, int end, int k0, int kb)
    {
        for (int i = 0; i < full; ++i) all_columns<R>(p, step, ldb, i * R, j0, end, k0, kb);
        if constexpr (full < blocks)
            for (int i = full; i < blocks; ++i) all_columns<R - 1>(p, step, ldb, i * (R - 1) + full, j0, end, k0, kb);
    }
    // Packs b(k0 .. k0 + kb, j0 .. end), padded with zeros to whole vectors.
    TK_METHOD void pack(int j0, int end, int k0, int kb)
    {
        if constexpr (B::stride0 == 1 && B::stride1 != 1) {
            Acc* to = packed;
            for (; j0 + NR <= end; j0 += NR, to += apart) pack_columns<NR>(to, j0, k0, kb);
            if constexpr (tail != 0)
                if (j0 < end) pack_columns<tail>(to, j0, k0, kb);
        } else {
            for (int k = 0; k < kb; ++k) {
                Acc* to = packed + k * NR;
                int j = j0;
                for (; j + NR <= end; j += NR, to += apart) pack_row<NR>(to, k0 + k, j);
                if constexpr (tail != 0)
                    if (j < end) pack_row<tail>(to, k0 + k, j);
            }
        }
    }
    static constexpr int padded(int width) { return (width + W - 1) / W * W; }
    template <int Width> TK_METHOD void pack_columns(Acc* TK_RESTRICT to, int j, int k0, int kb)
    {
        Acc line[KB];  // a column, widened along its consecutive elements
        for (int x = 0; x < Width; ++x) {
            widen_run(line, &b.at(k0, j + x), kb);
            for (int k = 0; k < kb; ++k) to[k * NR + x] = line[k];
        }
        for (int x = Width; x < padded(Width); ++x)
            for (int k = 0; k < kb; ++k) to[k * NR + x] = 0;
    }
    template <int Width> TK_METHOD void pack_row(Acc* TK_RESTRICT to, int k, int j)
    {
        if constexpr (B::template rows_of<Acc> && Width % W == 0) {
            TK_UNROLL
            for (int x = 0; x < Width; x += W) *(Vec*)(to + x) = *(const Vec*)&b.at(k, j + x);
        } else if constexpr (B::stride1 == 1) {
            widen_run(to, &b.at(k, j), Width);
        } else {
            for (int x = 0; x < Width; ++x) to[x] = cast<Acc>((typename B::Value)b.at(k, j + x));
        }
        for (int x = Width; x < padded(Width); ++x) to[x] = 0;
    }
    TK_METHOD void columns(int j0, int end, int k0, int kb)
    {
        pack(j0, end, k0, kb);
        all_rows(packed, apart, NR, j0, end, k0, kb);
    }
    TK_METHOD void run()
    {
        next_a = {(const char*)a.next, a.row * (i64)sizeof(typename A::Value), 0};
        next_b = {(const char*)b.next, b.row * (i64)sizeof(typename B::Value), 0};
        if constexpr (direct > 0) all_rows(&b.at(0, 0), NR, b.rows_apart(), 0, direct, 0, K);
        if constexpr (group == panels && !cut && direct < N) columns(direct, N, 0, K);
        else
            for (int j0 = direct; j0 < N; j0 += group * NR)
                for (int k0 = 0; k0 < K; k0 += KB)
                    columns(j0, N - j0 < group * NR ? N : j0 + group * NR, k0, K - k0 < KB ? K - k0 : KB);
    }
};

template <int M, int N, int K, class Acc, class A, class B, class C, class O, class Alpha, class Beta>
TK_FN void gemm_rows(const A& a, const B& b, const C& c, const O& out, Alpha alpha, Beta beta)
{
    Gemm<M, N, K, Acc, A, B, C, O, Alpha, Beta> g;
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
// any sign, also 0) are those of their operands. alpha and beta are numbers of type Acc, or Fixed. c may be out, and is
// not read if beta == 0; a and b must not overlap out.
template <int M, int N, int K, class Acc, class TM, class A, class B, class C, class O, class Alpha, class Beta>
TK_TILE void gemm(TM team, const A& a, const B& b, const C& c, const O& out, Alpha alpha, Beta beta)
{
    static_assert(is_same<Acc, f32>::value || is_same<Acc, f64>::value || is_same<Acc, u32>::value,
                  "products are summed in f32 or f64, of integers in u32, which wraps");
    if constexpr (!TM::alone) {
        team_gemm<M, N, K, Acc>(team, a, b, c, out, alpha, beta);
    }
#ifndef TK_CUDA
    else if constexpr (!cuts_k<K> || M <= kChunk) {
        gemm_rows<M, N, K, Acc>(a, b, c, out, alpha, beta);
    } else {
        constexpr int done = M / kChunk * kChunk;
        for (int i = 0; i < done; i += kChunk)
            gemm_rows<kChunk, N, K, Acc>(a.from(i, 0), b, c.from(i, 0), out.from(i, 0), alpha, beta);
        if constexpr (done < M)
            gemm_rows<M - done, N, K, Acc>(a.from(done, 0), b, c.from(done, 0), out.from(done, 0), alpha, beta);
    }
#endif
}

}  // namespace tk
#endif
