// The tile product by many threads: each sums a block of RM x RN elements in registers. Rows and columns of a block lie
// apart, so that the threads of a warp read neighbouring elements; consecutive elements are read as packs. As on the
// CPU, every element is the sum over k = 0, 1, ... by fused multiply-adds from 0.
#ifndef TILEKIT_NATIVE_GEMM_TEAM_H
#define TILEKIT_NATIVE_GEMM_TEAM_H
#include "gemm_base.h"
#include "pack.h"

namespace tk {

// How an operand whose lines (rows of a, columns of b) have K elements is read: `along` elements of a line at once, or
// one element of each of `across` neighbouring lines.
struct Reading { int along, across; };
template <class T> TK_CONSTANT Reading reading(int lines, int k, int line_stride, int k_stride, bool packs)
{
    constexpr int most = 16 / (int)sizeof(T) < 4 ? 16 / (int)sizeof(T) : 4;
    if (packs && k_stride == 1 && k > 1)
        return {power_of_two(lines > 1 ? line_stride : most, power_of_two(k, most)), 1};
    if (packs && line_stride == 1 && lines > 1)
        return {1, power_of_two(k > 1 ? k_stride : most, power_of_two(lines, most))};
    return {1, 1};
}

// The block of outputs that a thread computes at a time.
struct Cut { int rm, rn; };
// What it costs a thread to read `bytes` at once, in multiply-adds, of which there are more than bytes served.
TK_CONSTANT int read_cost(int bytes) { return 4 + bytes / 4; }
// The cut with the least work for the busiest thread, within what `threads` threads have registers for.
template <class Acc, class TA, class TB>
TK_CONSTANT Cut choose_cut(int m, int n, int threads, Reading a, Reading b)
{
    const int members = threads ? threads : 256, wide = (int)sizeof(Acc) / 4;
    const int most = (members > 512 ? 16 : members > 256 ? 32 : 64) / wide;
    Cut best{1, 1};
    i64 least = -1;
    for (int rm = 1; rm <= 8; rm *= 2)
        for (int rn = 1; rn <= 8; rn *= 2) {
            if (rm * rn > most || (rm > 1 && rm >= 2 * m) || (rn > 1 && rn >= 2 * n)) continue;
            const int va = rm < a.across ? rm : a.across, vb = rn < b.across ? rn : b.across;
            const i64 passes = (((m + rm - 1) / rm) * ((n + rn - 1) / rn) + members - 1) / members;
            // Reads for a.along * b.along steps of k.
            const i64 reads = rm / va * b.along * read_cost(va * a.along * (int)sizeof(TA)) +
                              rn / vb * a.along * read_cost(vb * b.along * (int)sizeof(TB));
            const i64 cost = passes * (rm * rn * wide * a.along * b.along + reads);
            if (least < 0 || cost < least || (cost == least && rm * rn > best.rm * best.rn)) {
                least = cost;
                best = {rm, rn};
            }
        }
    return best;
}

// An element in the type of the sums.
template <class Acc, class T> TK_FN Acc factor(T x)
{
    if constexpr (is_half<T>) return cast<Acc>(to_f32_number(x));
    else return cast<Acc>(x);
}

// The L lines of an operand that one thread reads: packs of V neighbouring lines, Units packs apart. Line l is number
// line(l) of the operand, if there are as many.
template <int L, int V, int Units, int Lines> struct Lattice {
    static_assert(L % V == 0, "lines are read in whole packs");
    int unit;
    TK_METHOD int line(int l) const { return (l / V * Units + unit) * V + l % V; }
    static constexpr bool exact = L * Units == Lines;
    TK_METHOD bool has(int l) const { return exact || line(l) < Lines; }
    // A line that exists, to be read in place of one that does not.
    TK_METHOD int readable(int l) const { return has(l) ? line(l) : 0; }
};

// values[l][k] = element k0 + k of line l for KB steps of k, from an operand of which `at(line, k)` gives the address.
template <int KB, int Along, int V, class Acc, int L, class Lat, class At>
TK_FN void read_lines(Acc (&values)[L][KB], const Lat& lattice, int k0, At at)
{
    typedef remove_const_t<typename At::Element> T;
    static_assert(KB % Along == 0 && (V == 1 || Along == 1), "packs lie along lines or across them");
    TK_UNROLL
    for (int l = 0; l < L; l += V)
        TK_UNROLL
        for (int k = 0; k < KB; k += Along) {
            T run[V * Along];
            const T* const from = at(lattice.readable(l), k0 + k);
            unpack(run, *(const Pack<V * Along * (int)sizeof(T)>*)from);
            TK_UNROLL
            for (int e = 0; e < V * Along; ++e) values[l + (V > 1 ? e : 0)][k + (V > 1 ? 0 : e)] = factor<Acc>(run[e]);
        }
}
template <class O> struct RowOf {
    typedef typename O::Element Element;
    O o;
    TK_METHOD const Element* operator()(int line, int k) const { return o.p + line * O::stride0 + k * O::stride1; }
};
template <class O> struct ColumnOf {
    typedef typename O::Element Element;
    O o;
    TK_METHOD const Element* operator()(int line, int k) const { return o.p + line * O::stride1 + k * O::stride0; }
};

// Reads V neighbouring elements of a row of c, as one pack where `Packed`.
template <bool Packed, class T, int V, class C> TK_FN void read_row(T (&to)[V], const C& c, int i, int j)
{
    if constexpr (Packed) unpack(to, *(const Pack<V * (int)sizeof(T)>*)&c.at(i, j));
    else
        TK_UNROLL
        for (int v = 0; v < V; ++v) to[v] = c.at(i, j + v);
}
// Writes a thread's block from its sums, V neighbouring columns at once.
template <int V, bool PackedC, class Acc, int RM, int RN, class Rows, class Columns, class C, class O, class Alpha,
          class Beta>
TK_FN void write_block(const Acc (&sums)[RM][RN], const Rows& rows, const Columns& columns, const C& c, const O& out,
                       Alpha alpha, Beta beta)
{
    typedef typename O::Value T;
    typedef typename C::Value Old;
    TK_UNROLL
    for (int i = 0; i < RM; ++i)
        TK_UNROLL
        for (int j = 0; j < RN; j += V) {
            if (!rows.has(i) || !columns.has(j)) continue;
            const int row = rows.line(i), column = columns.line(j);
            T run[V];
            Old old[V] = {};
            if (!is_zero(beta)) read_row<PackedC>(old, c, row, column);
            TK_UNROLL
            for (int v = 0; v < V; ++v) {
                Acc value = scaled(alpha, sums[i][j + v]);
                if (!is_zero(beta)) value = value + scaled(beta, cast<Acc>(old[v]));
                run[v] = cast<T>(value);
            }
            *(Pack<V * (int)sizeof(T)>*)&out.at(row, column) = pack<V * (int)sizeof(T)>(run);
        }
}

template <int M, int N, int K, class Acc, bool Packs, class TM, class A, class B, class C, class O, class Alpha,
          class Beta>
TK_FN void team_gemm_blocks(TM team, const A& a, const B& b, const C& c, const O& out, Alpha alpha, Beta beta)
{
    constexpr Reading ra = reading<typename A::Value>(M, K, A::stride0, A::stride1, Packs);
    constexpr Reading rb = reading<typename B::Value>(N, K, B::stride1, B::stride0, Packs);
    constexpr Cut cut = choose_cut<Acc, typename A::Value, typename B::Value>(M, N, TM::threads, ra, rb);
    constexpr int RM = cut.rm, RN = cut.rn, VA = RM < ra.across ? RM : ra.across, VB = RN < rb.across ? RN : rb.across;
    constexpr int KB = ra.along > rb.along ? ra.along : rb.along, UM = (M + RM - 1) / RM, UN = (N + RN - 1) / RN;
    // Packs of columns of out, which must not lie half outside.
    constexpr int wide = Packs && O::stride1 == 1 ? power_of_two(M > 1 ? O::stride0 : 4, VB) : 1;
    constexpr int VO = power_of_two(N, power_of_two(wide, 16 / (int)sizeof(typename O::Value)));
    constexpr bool packed_c = Packs && C::stride1 == 1 && (M == 1 || C::stride0 % VO == 0) &&
                              VO * sizeof(typename C::Value) <= 16;
    TK_UNROLL_BY(1)
    for (int unit = team.rank(); unit < UM * UN; unit += team.size()) {
        const Lattice<RM, VA, UM, M> rows{unit / UN};
        const Lattice<RN, VB, UN, N> columns{unit % UN};
        Acc sums[RM][RN];
        TK_UNROLL
        for (int i = 0; i < RM; ++i)
            TK_UNROLL
            for (int j = 0; j < RN; ++j) sums[i][j] = 0;
        TK_UNROLL_BY(RM * RN * KB >= 64 ? 1 : 64 / (RM * RN * KB))
        for (int k0 = 0; k0 < K; k0 += KB) {
            Acc left[RM][KB], right[RN][KB];
            read_lines<KB, ra.along, VA>(left, rows, k0, RowOf<A>{a});
            read_lines<KB, rb.along, VB>(right, columns, k0, ColumnOf<B>{b});
            TK_UNROLL
            for (int k = 0; k < KB; ++k)
                TK_UNROLL
                for (int i = 0; i < RM; ++i)
                    TK_UNROLL
                    for (int j = 0; j < RN; ++j) sums[i][j] = gemm_term(left[i][k], right[j][k], sums[i][j]);
        }
        write_block<VO, packed_c>(sums, rows, columns, c, out, alpha, beta);
    }
}

// Pointers that are no multiples of 16 bytes, as those of a view may be, are read element by element.
template <int M, int N, int K, class Acc, class TM, class A, class B, class C, class O, class Alpha, class Beta>
TK_FN void team_gemm(TM team, const A& a, const B& b, const C& c, const O& out, Alpha alpha, Beta beta)
{
    constexpr Reading ra = reading<typename A::Value>(M, K, A::stride0, A::stride1, true);
    constexpr Reading rb = reading<typename B::Value>(N, K, B::stride1, B::stride0, true);
    constexpr bool packs = ra.along > 1 || ra.across > 1 || rb.along > 1 || rb.across > 1 || O::stride1 == 1;
    if (packs && is_aligned<16>(a.p) && is_aligned<16>(b.p) && is_aligned<16>(c.p) && is_aligned<16>(out.p))
        team_gemm_blocks<M, N, K, Acc, packs>(team, a, b, c, out, alpha, beta);
    else team_gemm_blocks<M, N, K, Acc, false>(team, a, b, c, out, alpha, beta);
}

}  // namespace tk
#endif
