// The product of two factors in shared memory, added to sums that lie in the threads' registers.
//
// f16 and bf16 are multiplied exactly and summed in f32 by the tensor cores; f64 by theirs, in IEEE arithmetic;
// f32 by multiply-adds (IEEE, k ascending), or, where that was asked for, rounded to the nearest tf32 (11 significant
// bits) by the tensor cores, or split in two such parts (tf32x3). The sums over k are formed in an order that the plan
// of the product decides, not the number of threads that copy or the depth of a ring.
#ifndef TILEKIT_NATIVE_MMA_H
#define TILEKIT_NATIVE_MMA_H
#include "mma_fma.h"

#ifdef TK_CUDA
namespace tk {

// Kinds of products: what a register of a factor is and holds, what sums are, and the extent along k of an instruction.
template <class T> struct Tensor16 {
    typedef u32 Register;
    typedef f32 Sum;
    typedef T Item;
    static constexpr int k = 16, packed = 2, terms = 1;
};
struct Tf32 {
    typedef u32 Register;
    typedef f32 Sum;
    typedef f32 Item;
    static constexpr int k = 8, packed = 1, terms = 1;
};
struct Tf32x3 {
    typedef u32 Register;
    typedef f32 Sum;
    typedef f32 Item;
    static constexpr int k = 8, packed = 1, terms = 3;
};
struct Tensor64 {
    typedef f64 Register;
    typedef f64 Sum;
    typedef f64 Item;
    static constexpr int k = 8, packed = 1, terms = 1;
};
struct Fma32 {
    typedef f32 Sum;
    static constexpr int k = 4, terms = 1;
};

// A factor's registers, of the 16 (or 8) rows or columns from dx on and of the k's from dk on.
template <class Kind, class S, int Count>
TK_FN void load_elements(typename Kind::Register (&r)[Count], const S& from, int dx, int dk)
{
    constexpr int halves = Count / 2;  // a has 16 rows, b 8 columns
    typedef typename Kind::Item Item;
    TK_UNROLL
    for (int i = 0; i < Count; ++i) {
        const int row = dx + i % halves * 8, at = dk + i / halves * 4 * Kind::packed;
        if constexpr (Kind::packed == 2) {
            const u32 low = from.template at<Item>(row, at).bits, high = from.template at<Item>(row, at + 1).bits;
            r[i] = low | high << 16;
        } else if constexpr (sizeof(Item) == 4) {
            r[i] = bit_cast<u32>(from.template at<Item>(row, at));
        } else {
            r[i] = from.template at<Item>(row, at);
        }
    }
}
template <class Kind, class Op, bool Shared = Op::shared> struct ReadsMatrices { static constexpr bool value = false; };
template <class Kind, class Op> struct ReadsMatrices<Kind, Op, true> {
    typedef typename Kind::Item Item;
    static constexpr bool value =
        is_same<typename Op::Element, Item>::value && (sizeof(Item) == 2 || (sizeof(Item) == 4 && Op::k_major));
};
template <class Kind, class Op> constexpr bool reads_matrices = ReadsMatrices<Kind, Op>::value;

// The atoms of a warp: 16 rows by 8 columns, of which a lane has two neighbours in row lane / 4 and two in the row 8 below,
// in four registers.
template <class L> struct Atoms {
    typedef Lines<L, 0> Rows;
    typedef Lines<L, 1> Columns;
    static constexpr int m = Rows::count / 2, n = Columns::count / 2;
    static TK_METHOD constexpr int row(int i) { return Rows::at(2 * i); }
    static TK_METHOD constexpr int column(int j) { return Columns::at(2 * j); }
    static TK_METHOD constexpr int sums(int i, int j) { return register_at<L>(2 * i, 2 * j); }
};

template <class Kind, class L, class Op>
TK_FN void load_a(typename Kind::Register (&r)[Atoms<L>::m][4], const Op& from, int k, int rank)
{
    typedef Lines<L, 0> Rows;
    typedef Spot<Op, Rows::template movable<Op>()> S;
    const int lane = rank % 32, m = Rows::of_warp(rank);
    TK_UNROLL
    for (int i = 0; i < Atoms<L>::m; ++i) {
        const int dx = Atoms<L>::row(i);
        if constexpr (!reads_matrices<Kind, Op>)
            load_elements<Kind>(r[i], S{from, m + lane / 4, lane % 4 * Kind::packed}, dx, k);
        else if constexpr (Op::k_major)
            load_matrices<false>(r[i], S{from, m + lane % 16, lane / 16 * 4 * Kind::packed}.address(dx, k));
        else load_matrices<true>(r[i], S{from, m + lane / 8 % 2 * 8, lane % 8 + lane / 16 * 8}.address(dx, k));
    }
}
template <class Kind, class L, class Op>
TK_FN void load_b(typename Kind::Register (&r)[Atoms<L>::n][2], const Op& from, int k, int rank)
{
    typedef Lines<L, 1> Columns;
    typedef Spot<Op, Columns::template movable<Op>()> S;
    const int lane = rank % 32, n = Columns::of_warp(rank);
    constexpr int step = 4 * Kind::packed, count = Atoms<L>::n;  // elements in 16 bytes
    if constexpr (!reads_matrices<Kind, Op>) {
        TK_UNROLL
        for (int j = 0; j < count; ++j)
            load_elements<Kind>(r[j], S{from, n + lane / 4, lane % 4 * Kind::packed}, Atoms<L>::column(j), k);
    } else {
        constexpr int next = Atoms<L>::column(1);  // two atoms at once
        TK_UNROLL
        for (int j = 0; j + 1 < count; j += 2) {
            const int dx = Atoms<L>::column(j);
            u32 four[4];
            if constexpr (Op::k_major) {
                const S at{from, n + lane % 8 + lane / 16 * next, lane / 8 % 2 * step};
                load_matrices<false>(four, at.address(dx, k));
            } else {
                load_matrices<true>(four, S{from, n + lane / 16 * next, lane % 16}.address(dx, k));
            }
            r[j][0] = four[0], r[j][1] = four[1], r[j + 1][0] = four[2], r[j + 1][1] = four[3];
        }
        if constexpr (count % 2 == 1) {  // the last one alone
            constexpr int j = count - 1, dx = Atoms<L>::column(j);
            if constexpr (Op::k_major)
                load_matrices<false>(r[j], S{from, n + lane % 8, lane / 8 % 2 * step}.address(dx, k));
            else load_matrices<true>(r[j], S{from, n, lane % 16}.address(dx, k));
        }
    }
}

// x as its nearest tf32 and the nearest tf32 of the rest.
TK_FN void split_tf32(u32 x, u32& high, u32& low)
{
    const f32 value = bit_cast<f32>(x);
    const bool large = !(fabsf(value) < kLargeTf32);
    high = large ? x : (x + 0x1000u) & 0xffffe000u;
    const f32 rest = value - bit_cast<f32>(high);
    low = large ? 0u : bit_cast<u32>(rest) + 0x1000u;
}

// x, or 0 where it is infinite or NaN: the product of the high parts says so already, and infinity times the 0 that its
// partner's low part may be would be NaN.
TK_FN u32 if_finite(u32 x) { return (x & 0x7f800000u) == 0x7f800000u ? 0u : x; }

// The tensor cores cut bits off the sums they add to: where f32's accuracy is asked for, products are summed by
// themselves and then added. A whole block's are where a thread has registers for both, else those of one step and row.
template <class Kind, class L> constexpr bool sums_apart = Kind::terms == 3 && L::registers <= 64 && L::threads <= 256;

// A thread's registers of both factors for one instruction's extent along k.
template <class Kind, class L> struct Factors {
    static constexpr int atoms_m = Atoms<L>::m, atoms_n = Atoms<L>::n;
    typename Kind::Register a[atoms_m][4], b[atoms_n][2];

    template <class A, class B> TK_METHOD void load(const A& from_a, const B& from_b, int k, int rank)
    {
        load_a<Kind, L>(a, from_a, k, rank);
        load_b<Kind, L>(b, from_b, k, rank);
    }
    // sums += a * b. RoundA and RoundB say that a factor's elements are not tf32 already.
    template <bool RoundA, bool RoundB> TK_METHOD void multiply(typename Kind::Sum* sums)
    {
        if constexpr (is_same<Kind, Tf32>::value) {
            if constexpr (RoundA) round(&a[0][0], 4 * atoms_m);
            if constexpr (RoundB) round(&b[0][0], 2 * atoms_n);
        }
        if constexpr (Kind::terms == 3) multiply_split(sums);
        else all(sums, a, b);
    }

private:
    static TK_METHOD void round(u32* r, int count)
    {
        TK_UNROLL
        for (int i = 0; i < count; ++i) r[i] = round_tf32(r[i]);
    }
    template <class RA, class RB> static TK_METHOD void all(typename Kind::Sum* sums, const RA& a, const RB& b)
    {
        TK_UNROLL
        for (int i = 0; i < atoms_m; ++i) {
            TK_UNROLL
            for (int j = 0; j < atoms_n; ++j) {
                const int at = i % 2 ? atoms_n - 1 - j : j;
                multiply_add(sums + Atoms<L>::sums(i, at), a[i], b[at], typename Kind::Item());
            }
        }
    }
    // Row by row of a's atoms, which takes the fewest registers.
    TK_METHOD void multiply_split(f32* sums)
    {
        u32 low_b[atoms_n][2], finite_b[atoms_n][2];
        TK_UNROLL
        for (int q = 0; q < 2 * atoms_n; ++q) {
            split_tf32(b[q / 2][q % 2], b[q / 2][q % 2], low_b[q / 2][q % 2]);
            finite_b[q / 2][q % 2] = if_finite(b[q / 2][q % 2]);
        }
        TK_UNROLL
        for (int i = 0; i < atoms_m; ++i) {
            u32 low_a[4], finite_a[4];
            TK_UNROLL
            for (int q = 0; q < 4; ++q) {
                split_tf32(a[i][q], a[i][q], low_a[q]);
                finite_a[q] = if_finite(a[i][q]);
            }
            f32 part[L::registers] = {};
            f32* const to = sums_apart<Tf32x3, L> ? sums : part;
            row(to, i, low_a, finite_b);
            row(to, i, finite_a, low_b);
            row(to, i, a[i], b);
            TK_UNROLL
            for (int j = 0; j < (sums_apart<Tf32x3, L> ? 0 : 4 * atoms_n); ++j) {
                const int at = Atoms<L>::sums(i, j / 4) + j % 4;
                sums[at] = sums[at] + part[at];
            }
        }
    }
    static TK_METHOD void row(f32* sums, int i, const u32* a, const u32 (&b)[atoms_n][2])
    {
        TK_UNROLL
        for (int j = 0; j < atoms_n; ++j) multiply_add(sums + Atoms<L>::sums(i, j), a, b[j], f32());
    }
};

// Whether an operand's elements need rounding to be tf32; f16 and bf16 are tf32 as they are.
template <class Op> constexpr bool needs_rounding = !is_half<typename Op::Element>;

template <class L, class S> TK_FN void add_sums(S* sums, const S* part)
{
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i) sums[i] = sums[i] + part[i];
}

// Whether a unit of mathdx.h computes a kind of product.
template <class Kind> constexpr bool is_unit_kind = false;

// The sum of a product and what was there before, of which a factor of zero leaves nothing: also not a NaN.
template <class S, class B, class O> TK_FN S plus_scaled(S product, B beta, O old)
{
    const S factor = cast<S>(beta);
    return factor == 0 ? product : product + factor * cast<S>(old);
}

struct Nothing { TK_METHOD void operator()() const {} };

// sums += a * b over `Depth` k's, a multiple of Kind::k. `meanwhile` is done once: if there are registers for both, while
// the first ones are loaded.
template <class Kind, class L, int Depth, class A, class B, class F = Nothing>
TK_FN void multiply(int rank, typename Kind::Sum* sums, const A& a, const B& b, const F& meanwhile = Nothing())
{
    if constexpr (is_unit_kind<Kind>) {
        meanwhile();
        Kind::Unit::execute(a.tensor(), b.tensor(), sums);
    } else if constexpr (is_same<Kind, Fma32>::value) {
        meanwhile();
        multiply_fma<L, Depth>(rank, sums, a, b);
    } else {
        constexpr int steps = Depth / Kind::k;
        static_assert(Depth % Kind::k == 0, "the depth must be whole steps");
        constexpr bool late = is_same<Kind, Tensor64>::value;  // others have no registers for it
        if constexpr (!late) meanwhile();
        typename Kind::Sum part[L::registers] = {};
        typename Kind::Sum* to = sums_apart<Kind, L> ? part : sums;
        // Where all loads are quick ones, the compiler hoists those of all steps, and runs out of registers.
        constexpr bool rolled = is_same<typename Kind::Item, f32>::value && A::k_major && B::k_major;
        TK_UNROLL_BY((rolled ? (Kind::terms == 3 ? 1 : 2) : steps))
        for (int s = 0; s < steps; ++s) {
            Factors<Kind, L> now;
            now.load(a, b, s * Kind::k, rank);
            if (late && s == 0) meanwhile();
            now.template multiply<needs_rounding<A>, needs_rounding<B>>(to);
        }
        if constexpr (sums_apart<Kind, L>) add_sums<L>(sums, part);
    }
}

}  // namespace tk
#endif
#endif
