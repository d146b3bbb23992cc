// The loop over k of a product of two arrays: a ring of blocks in shared memory is filled ahead by asynchronous copies
// while the sums stay in registers.
#ifndef TILEKIT_NATIVE_MMA_LOOP_H
#define TILEKIT_NATIVE_MMA_LOOP_H
#include "feed.h"
#include "mma.h"

#ifdef TK_CUDA
namespace tk {

// Bytes of the ring; it starts at a multiple of 128.
template <int Stages, class A, class B> constexpr int ring_bytes = Stages * (A::bytes + B::bytes);

// The ring, as one thread sees it. Steps are copied in order, Stages - 1 ahead of the one that is multiplied.
template <int Stages, class FA, class FB, class OpA, class OpB> struct Ring {
    static constexpr int stage = OpA::bytes + OpB::bytes, ahead = Stages > 2 ? Stages - 2 : 0;
    FA a;
    FB b;
    u32 memory;
    i64 total;     // elements along k
    int steps, whole, copied;  // how many there are, are whole from the first on, are under way or there
    int in, out;   // where the next step is copied to, and the next one is read from

    template <int K> TK_METHOD void begin(int rank)
    {
        steps = (int)((total + K - 1) / K);
        whole = (int)b.whole_steps(a.whole_steps(total / K));
        a.begin(rank);
        b.begin(rank);
    }
    template <int K> TK_METHOD void copy(int rank)
    {
        if (copied < whole) {
            a.copy_whole(rank, memory + in);
            b.copy_whole(rank, memory + in + OpA::bytes);
        } else if (copied < steps) {
            const i64 left = total - (i64)copied * K;
            a.copy(rank, memory + in, copied, left);
            b.copy(rank, memory + in + OpA::bytes, copied, left);
        }
        ++copied;
        copies_end();
        in = in + stage == Stages * stage ? 0 : in + stage;
    }
    // Waits until the next step's factors are there, for all threads.
    template <int Ahead, class TM> TK_METHOD void wait(int rank, TM team) const
    {
        copies_left<Ahead>();
        a.round(rank, memory + out);
        b.round(rank, memory + out + OpA::bytes);
        team.sync();
    }
    TK_METHOD void step() { out = out + stage == Stages * stage ? 0 : out + stage; }
    TK_METHOD OpA now_a() const { return {memory + out}; }
    TK_METHOD OpB now_b() const { return {memory + out + OpA::bytes}; }
};

template <class R, int K> struct CopyNext {
    R& ring;
    int rank;
    TK_METHOD void operator()() const { ring.template copy<K>(rank); }
};

// One step's products, while the next step's first registers are already loaded: two copies of them take turns.
template <class Kind, class L, int K, class R, class TM>
TK_FN void step_ahead(TM team, typename Kind::Sum* sums, R& ring, Factors<Kind, L>& now, int rank)
{
    typedef decltype(ring.now_a()) A;
    typedef decltype(ring.now_b()) B;
    constexpr int steps = A::K / Kind::k;
    typename Kind::Sum part[L::registers] = {};
    typename Kind::Sum* to = sums_apart<Kind, L> ? part : sums;
    ring.template copy<K>(rank);
    TK_UNROLL
    for (int s = 0; s < steps; ++s) {
        if (s == steps - 1) {
            ring.step();
            ring.template wait<R::ahead>(rank, team);
        }
        Factors<Kind, L> next;
        next.load(ring.now_a(), ring.now_b(), (s + 1) % steps * Kind::k, rank);
        now.template multiply<needs_rounding<A>, needs_rounding<B>>(to);
        now = next;
    }
    if constexpr (sums_apart<Kind, L>) add_sums<L>(sums, part);
}

// sums += the products of `total` elements along k, from the windows of two feeds, K of them in each step: a step that
// is not the first begins where `step` of its feed says, and the last may have fewer. Sums are those of a layout L; the
// ring's ring_bytes lie at `memory`. No thread may use that memory before all have come here, nor after until all have
// left. With Ahead, a thread loads the registers of the next products before it has multiplied the last; that hides the
// loads where few warps run, and takes registers. Neither it nor Stages changes a bit of the sums.
template <class Kind, class L, class OpA, class OpB, int K, int Stages, bool Ahead, class FA, class FB, class TM>
TK_FN void multiply_ring(TM team, typename Kind::Sum* sums, void* memory, const FA& a, const FB& b, i64 total)
{
    static_assert(Stages >= 1 && OpA::K == OpB::K && OpA::K % Kind::k == 0 && OpA::K >= K, "not a ring of whole steps");
    static_assert(Stages > 1 || !Ahead, "only a ring has a next step");
    typedef Ring<Stages, FA, FB, OpA, OpB> R;
    const int rank = team.rank();
    R ring{a, b, shared_address(memory), total, 0, 0, 0, 0, 0};
    ring.template begin<K>(rank);
    const int steps = ring.steps;
    // Rolled it is less code; but tf32's products, which need every register where they are not loaded ahead, then spill.
    TK_UNROLL_BY((Ahead || is_unit_kind<Kind> || is_same<Kind, Fma32>::value || sizeof(typename Kind::Sum) == 8 ? 1 : Stages))
    for (int s = 0; s < Stages - 1; ++s) ring.template copy<K>(rank);
    if constexpr (Ahead) {
        Factors<Kind, L> now;
        ring.template wait<R::ahead>(rank, team);
        now.load(ring.now_a(), ring.now_b(), 0, rank);
        for (int s = 0; s < steps; ++s) step_ahead<Kind, L, K>(team, sums, ring, now, rank);
    } else {
        for (int s = 0; s < steps; ++s) {
            if constexpr (Stages == 1) {
                if (s) team.sync();
                ring.template copy<K>(rank);
                ring.template wait<0>(rank, team);
                multiply<Kind, L, OpA::K>(rank, sums, ring.now_a(), ring.now_b());
            } else {
                ring.template wait<R::ahead>(rank, team);
                multiply<Kind, L, OpA::K>(rank, sums, ring.now_a(), ring.now_b(), CopyNext<R, K>{ring, rank});
            }
            ring.step();
        }
    }
    copies_left<0>();
}

}  // namespace tk
#endif
#endif
