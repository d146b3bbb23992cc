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

// A factor's registers from an operand, of the 16 (or 8) rows or columns from x on and of the k's from k on.
template <class Kind, class Op, int Count>
TK_FN void load_elements(typename Kind::Register (&r)[Count], const Op& from, int x, int k, int lane)
{
    constexpr int halves = Count / 2;  // a has 16 rows, b 8 columns
    typedef typename Kind::Item Item;
    TK_UNROLL
    for (int i = 0; i < Count; ++i) {
        const int row = x + lane / 4 + i % halves * 8, at = k + (lane % 4 + i / halves * 4) * Kind::packed;
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
template <class Kind, class Op>
TK_FN void load_a(typename Kind::Register (&r)[4], const Op& from, int x, int k, int lane)
{
    if constexpr (!reads_matrices<Kind, Op>) load_elements<Kind>(r, from, x, k, lane);
    else if constexpr (Op::k_major)
        load_matrices<false>(r, from.address(x + lane % 16, k + lane / 16 * 4 * Kind::packed));
    else load_matrices<true>(r, from.address(x + lane / 8 % 2 * 8, k + lane % 8 + lane / 16 * 8));
}
// Two atoms of b side by side, or the last one alone.
template <class Kind, class Op, int Atoms>
TK_FN void load_b(typename Kind::Register (&r)[Atoms][2], const Op& from, int x, int k, int lane)
{
    if constexpr (!reads_matrices<Kind, Op>) {
        TK_UNROLL
        for (int j = 0; j < Atoms; ++j) load_elements<Kind>(r[j], from, x + 8 * j, k, lane);
    } else {
        constexpr int step = 4 * Kind::packed;  // elements in 16 bytes
        TK_UNROLL
        for (int j = 0; j + 1 < Atoms; j += 2) {
            u32 four[4];
            if constexpr (Op::k_major)
                load_matrices<false>(four, from.address(x + 8 * j + lane % 8 + lane / 16 * 8, k + lane / 8 % 2 * step));
            else load_matrices<true>(four, from.address(x + 8 * j + lane / 16 * 8, k + lane % 16));
            r[j][0] = four[0], r[j][1] = four[1], r[j + 1][0] = four[2], r[j + 1][1] = four[3];
        }
        if constexpr (Atoms % 2 == 1) {
            constexpr int j = Atoms - 1;
            if constexpr (Op::k_major)
                load_matrices<false>(r[j], from.address(x + 8 * j + lane % 8, k + lane / 8 % 2 * step));
            else load_matrices<true>(r[j], from.address(x + 8 * j, k + lane % 16));
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
    typename Kind::Register a[L::atoms_m][4], b[L::atoms_n][2];

    template <class A, class B> TK_METHOD void load(const A& from_a, const B& from_b, int k, int rank)
    {
        const int lane = rank % 32, m = L::first_row(rank), n = L::first_col(rank);
        TK_UNROLL
        for (int i = 0; i < L::atoms_m; ++i) load_a<Kind>(a[i], from_a, m + 16 * i, k, lane);
        load_b<Kind>(b, from_b, n, k, lane);
    }
    // sums += a * b. RoundA and RoundB say that a factor's elements are not tf32 already.
    template <bool RoundA, bool RoundB> TK_METHOD void multiply(typename Kind::Sum* sums)
    {
        if constexpr (is_same<Kind, Tf32>::value) {
            if constexpr (RoundA) round(&a[0][0], 4 * L::atoms_m);
            if constexpr (RoundB) round(&b[0][0], 2 * L::atoms_n);
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
        for (int i = 0; i < L::atoms_m; ++i) {
            TK_UNROLL
            for (int j = 0; j < L::atoms_n; ++j) {
                const int at = i % 2 ? L::atoms_n - 1 - j : j;
                multiply_add(sums + 4 * (i * L::atoms_n + at), a[i], b[at], typename Kind::Item());
            }
        }
    }
    TK_METHOD void multiply_split(f32* sums)
    {
        u32 low_b[L::atoms_n][2];
        TK_UNROLL
        for (int i = 0; i < 2 * L::atoms_n; ++i) split_tf32(b[i / 2][i % 2], b[i / 2][i % 2], low_b[i / 2][i % 2]);
        if constexpr (sums_apart<Tf32x3, L>) {
            u32 low_a[L::atoms_m][4];
            TK_UNROLL
            for (int i = 0; i < 4 * L::atoms_m; ++i) split_tf32(a[i / 4][i % 4], a[i / 4][i % 4], low_a[i / 4][i % 4]);
            u32 finite_a[L::atoms_m][4], finite_b[L::atoms_n][2];
            TK_UNROLL
            for (int i = 0; i < 4 * L::atoms_m; ++i) finite_a[i / 4][i % 4] = if_finite(a[i / 4][i % 4]);
            TK_UNROLL
            for (int i = 0; i < 2 * L::atoms_n; ++i) finite_b[i / 2][i % 2] = if_finite(b[i / 2][i % 2]);
            all(sums, low_a, finite_b);
            all(sums, finite_a, low_b);
            all(sums, a, b);
            return;
        }
        TK_UNROLL
        for (int i = 0; i < L::atoms_m; ++i) {
            f32 part[4 * L::atoms_n] = {};
            u32 low_a[4], finite_a[4], finite_b[L::atoms_n][2];
            TK_UNROLL
            for (int q = 0; q < 4; ++q) split_tf32(a[i][q], a[i][q], low_a[q]);
            TK_UNROLL
            for (int q = 0; q < 4; ++q) finite_a[q] = if_finite(a[i][q]);
            TK_UNROLL
            for (int q = 0; q < 2 * L::atoms_n; ++q) finite_b[q / 2][q % 2] = if_finite(b[q / 2][q % 2]);
            row(part, low_a, finite_b);
            row(part, finite_a, low_b);
            row(part, a[i], b);
            TK_UNROLL
            for (int j = 0; j < 4 * L::atoms_n; ++j) sums[4 * i * L::atoms_n + j] = sums[4 * i * L::atoms_n + j] + part[j];
        }
    }
    static TK_METHOD void row(f32* sums, const u32* a, const u32 (&b)[L::atoms_n][2])
    {
        TK_UNROLL
        for (int j = 0; j < L::atoms_n; ++j) multiply_add(sums + 4 * j, a, b[j], f32());
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

// sums += a * b over `Depth` k's, a multiple of Kind::k.
template <class Kind, class L, int Depth, class A, class B>
TK_FN void multiply(int rank, typename Kind::Sum* sums, const A& a, const B& b)
{
    if constexpr (is_unit_kind<Kind>) Kind::Unit::execute(a.tensor(), b.tensor(), sums);
    else if constexpr (is_same<Kind, Fma32>::value) multiply_fma<L, Depth>(rank, sums, a, b);
    else {
        constexpr int steps = Depth / Kind::k;
        static_assert(Depth % Kind::k == 0, "the depth must be whole steps");
        typename Kind::Sum part[L::registers] = {};
        typename Kind::Sum* to = sums_apart<Kind, L> ? part : sums;
        TK_UNROLL
        for (int s = 0; s < steps; ++s) {
            Factors<Kind, L> now;
            now.load(a, b, s * Kind::k, rank);
            now.template multiply<needs_rounding<A>, needs_rounding<B>>(to);
        }
        if constexpr (sums_apart<Kind, L>) add_sums<L>(sums, part);
    }
}

}  // namespace tk
#endif
#endif
