// Products as functions of their own, for kernels with many of them: one copy serves all that are equal. In one long
// function the compiler's time grows with the square of their number, above all where elements are guarded.
//
// Sums go in and out by value and so stay in registers. Tiles are told by their addresses in shared memory: of a pointer
// that a function is given, the compiler does not know what memory it is to.
#ifndef TILEKIT_NATIVE_MMA_APART_H
#define TILEKIT_NATIVE_MMA_APART_H
#include "gemm_base.h"
#include "mma_loop.h"

#ifdef TK_CUDA
namespace tk {

template <class T> TK_FN T* shared_pointer(u32 address) { return (T*)__cvta_shared_to_generic(address); }
template <class Op> TK_FN u32 place_of(const Op& op)
{
    if constexpr (Op::shared) return op.memory;
    else return shared_address(op.memory);
}
template <class Op> TK_FN Op operand_at(u32 address)
{
    if constexpr (Op::shared) return Op{address};
    else return Op{shared_pointer<const typename Op::Element>(address)};
}

// A thread's sums, as functions are given and return them.
template <class Kind, class L> struct Held { typename Kind::Sum values[L::registers]; };
template <class H, class S> TK_FN H held(const S* sums)
{
    H h;
    TK_UNROLL
    for (int i = 0; i < (int)(sizeof(h.values) / sizeof(S)); ++i) h.values[i] = sums[i];
    return h;
}
template <class H, class S> TK_FN void release(const H& h, S* sums)
{
    TK_UNROLL
    for (int i = 0; i < (int)(sizeof(h.values) / sizeof(S)); ++i) sums[i] = h.values[i];
}

// multiply().
template <class Kind, class L, int Depth, class A, class B>
TK_COLD Held<Kind, L> multiplied(int rank, Held<Kind, L> h, u32 a, u32 b)
{
    multiply<Kind, L, Depth>(rank, h.values, operand_at<A>(a), operand_at<B>(b));
    return h;
}
template <class Kind, class L, int Depth, class A, class B>
TK_FN void multiply_apart(int rank, typename Kind::Sum* sums, const A& a, const B& b)
{
    const Held<Kind, L> before = held<Held<Kind, L>>(sums);
    release(multiplied<Kind, L, Depth, A, B>(rank, before, place_of(a), place_of(b)), sums);
}

// out = alpha * (a @ b) + beta * c, of tiles in shared memory; as in gemm(), c is not read where beta is zero.
template <class Kind, class L, int Depth, class A, class B, class C, class O, class Alpha, class Beta>
TK_COLD void product(int rank, u32 a, u32 b, u32 c, u32 out, Alpha alpha, Beta beta)
{
    typename Kind::Sum sums[L::registers] = {};
    multiply<Kind, L, Depth>(rank, sums, operand_at<A>(a), operand_at<B>(b));
    const C old{shared_pointer<typename C::Element>(c), 0, nullptr};
    const O to{shared_pointer<typename O::Element>(out), 0, nullptr};
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i)
        if (L::is_held(rank, i))
            gemm_finish(sums[i], old, to, L::template first<0>(rank) + L::template further<0>(i),
                        L::template first<1>(rank) + L::template further<1>(i), alpha, beta);
}
template <class Kind, class L, int Depth, class A, class B, class C, class O, class Alpha, class Beta>
TK_FN void product_apart(int rank, const A& a, const B& b, const C& c, const O& out, Alpha alpha, Beta beta)
{
    product<Kind, L, Depth, A, B, C, O>(rank, place_of(a), place_of(b), shared_address(c.p), shared_address(out.p),
                                        alpha, beta);
}

// multiply_ring().
template <class Kind, class L, class OpA, class OpB, int K, int Stages, bool Ahead, class FA, class FB, class TM>
TK_COLD Held<Kind, L> ring_multiplied(TM team, Held<Kind, L> h, u32 memory, FA a, FB b, i64 total)
{
    multiply_ring<Kind, L, OpA, OpB, K, Stages, Ahead>(team, h.values, shared_pointer<char>(memory), a, b, total);
    return h;
}
template <class Kind, class L, class OpA, class OpB, int K, int Stages, bool Ahead, class FA, class FB, class TM>
TK_FN void multiply_ring_apart(TM team, typename Kind::Sum* sums, void* memory, const FA& a, const FB& b, i64 total)
{
    const Held<Kind, L> before = held<Held<Kind, L>>(sums);
    release(ring_multiplied<Kind, L, OpA, OpB, K, Stages, Ahead>(team, before, shared_address(memory), a, b, total), sums);
}

}  // namespace tk
#endif
#endif
