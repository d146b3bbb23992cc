// Reductions of tiles in the registers that products leave them in (lines.h), in the order of reduce.h: the same bits.
#ifndef TILEKIT_NATIVE_FRAGMENT_REDUCE_H
#define TILEKIT_NATIVE_FRAGMENT_REDUCE_H
#include "lines.h"
#include "reduce.h"

#ifdef TK_CUDA
namespace tk {

// A thread's rows or columns, and how its warp shares them.
template <class L, int Axis> struct Along : Lines<L, Axis> {
    typedef Lines<L, Axis> Own;
    static constexpr int lanes = Own::lanes, own = 1 << Own::bits, rounds = Own::count / own;
    // Neighbours that a thread holds, and how far apart in the warp the lanes are that hold the next ones.
    static constexpr int run = Own::run, between = scatter<typename L::Lanes, Axis>(1);
    static TK_METHOD int first(int rank) { return L::template first<Axis>(rank); }
    static TK_METHOD int warp(int rank) { return Own::of_warp(rank) >> (Own::bits + L::Lanes::of_axis(Axis)); }
    static TK_METHOD int lane(int rank) { return spread<typename L::Lanes, Axis>(rank % 32) / run; }
    // Where a thread's value number n along the axis is, in row (column) number `kept`.
    static TK_METHOD constexpr int register_of(int kept, int n)
    {
        return Axis == 1 ? register_at<L>(kept, n) : register_at<L>(n, kept);
    }
    // Whether elements of a warp that far apart are the same thread's; all that are kLanes apart are.
    static TK_METHOD constexpr bool is_own(int by) { return (by & (run * lanes - run)) == 0; }
};

// What a thread has of the kLanes parts that are combined from the left: part[r] is of the positions that are r further
// than its lane's first one, modulo kLanes. Only those r are used that are distances within its own registers.
template <class Acc> struct RunParts { Acc part[kLanes]; };

// combine_lanes() of the parts that the lanes of a row (column) hold, `first` being a lane's first position: the lane where
// that is 0 gets the result. All lanes of the warp call it.
template <class L, int Axis, int Half = kLanes / 2, class Acc, class F>
TK_FN Acc combine_parts(RunParts<Acc>& parts, int first, F combine)
{
    typedef Along<L, Axis> A;
    constexpr int lanes_of = A::extent < kLanes ? A::extent : kLanes;
    TK_UNROLL
    for (int r = 0; r < Half; ++r) {
        if (!A::is_own(r)) continue;
        Acc other;
        if constexpr (A::is_own(Half)) other = parts.part[r + Half];
        else other = lane_after(parts.part[r], Half / A::run * A::between);
        if (first + r + Half < lanes_of) parts.part[r] = combine(parts.part[r], other);
    }
    if constexpr (Half > 1) return combine_parts<L, Axis, Half / 2>(parts, first, combine);
    else return parts.part[0];
}

// Combines row (column) number `kept` of a thread from the left, where one warp has all of it.
template <class L, int Axis, class Acc, class S, class F>
TK_FN void combine_own(RunParts<Acc>& parts, int rank, const S* r, int kept, F combine)
{
    typedef Along<L, Axis> A;
    TK_UNROLL
    for (int y = 0; y < A::count; ++y) {
        const int i = A::register_of(kept, y), by = A::at(y);
        Acc& part = parts.part[by % kLanes];
        if (by < kLanes) part = cast<Acc>(r[i]);
        else if (A::first(rank) + by < A::extent) part = combine(part, cast<Acc>(r[i]));
    }
}

// Where several warps have a row (column), they meet in `exchange`, in which part number n of each of `rows` lies at n * rows:
// a thread combines its elements of a round with what those before them left there.
template <class L, int Axis, class Acc, class S, class F>
TK_FN void combine_further(int rank, const S* r, int round, int kept, Acc* exchange, int rows, F combine)
{
    typedef Along<L, Axis> A;
    TK_UNROLL
    for (int y = round * A::own; y < (round + 1) * A::own; ++y) {
        const int i = A::register_of(kept, y), at = A::first(rank) + A::at(y);
        Acc& part = exchange[at % kLanes * rows];
        const Acc value = cast<Acc>(r[i]);
        if (at < A::extent) part = at < kLanes ? value : combine(part, value);
    }
}

// How many values warps exchange at least; with a multiple of that they do so for as many rows (columns) of a thread at once.
template <class L, int Axis>
constexpr int exchanged_values = kLanes * Along<L, 1 - Axis>::lanes * Along<L, 1 - Axis>::warps;

// out[e * step] = the reduction of row e (Axis 1) or column e (Axis 0). Where several warps share those, `exchange` holds
// Values and may be used again afterwards. All threads call it; none sees `out`, also in shared memory, before it has met the
// others.
template <class L, int Axis, int Values, class Acc, class S, class TO, class F, class TM>
TK_FN void reduce_fragment(TM team, TO* out, i64 step, const S* r, Acc* exchange, F combine)
{
    typedef Along<L, Axis> A;
    typedef Along<L, 1 - Axis> Kept;
    constexpr bool alone = A::warps == 1;
    static_assert(alone || Values >= exchanged_values<L, Axis>, "warps need more memory to exchange parts");
    constexpr int rows = Kept::lanes * Kept::warps, together = alone ? Kept::count : Values / exchanged_values<L, Axis>;
    const int rank = team.rank(), warp = A::warp(rank), first = A::first(rank % 32);
    exchange += Kept::warp(rank) * Kept::lanes + Kept::lane(rank);
    TK_UNROLL
    for (int x0 = 0; x0 < Kept::count; x0 += together) {
        TK_UNROLL
        for (int round = 0; round < (alone ? 0 : A::rounds); ++round) {
            TK_UNROLL_BY(1)
            for (int w = 0; w < A::warps; ++w) {  // one goes on where the one before it ended
                TK_UNROLL
                for (int x = x0; x < Kept::count && x < x0 + together; ++x)
                    if (warp == w)
                        combine_further<L, Axis>(rank, r, round, x, exchange + (x - x0) * (kLanes * rows), rows, combine);
                team.sync();
            }
        }
        TK_UNROLL
        for (int x = x0; x < Kept::count && x < x0 + together; ++x) {
            if (warp != A::warps - 1) continue;
            RunParts<Acc> parts;
            if constexpr (alone) combine_own<L, Axis>(parts, rank, r, x, combine);
            else {
                TK_UNROLL
                for (int p = 0; p < kLanes; ++p)
                    if (A::is_own(p)) parts.part[p] = exchange[((x - x0) * kLanes + first + p) * rows];
            }
            const int at = Kept::first(rank) + Kept::at(x);
            const Acc found = combine_parts<L, Axis>(parts, first, combine);
            if (first == 0 && at < Kept::extent) out[at * step] = cast<TO>(found);
        }
        if (!alone) team.sync();
    }
}

}  // namespace tk
#endif
#endif
