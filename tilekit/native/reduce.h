// Reductions of strided tiles in one fixed order, whatever the size of the team: n elements are taken as 32 lanes,
// lane l combining elements l, l + 32, l + 64, ... from the left; the lanes are then halved, lane i taking in lane
// i + 16, then i + 8, 4, 2, 1. No identity is needed: a lane starts from its first element and missing ones are skipped.
#ifndef TILEKIT_NATIVE_REDUCE_H
#define TILEKIT_NATIVE_REDUCE_H
#include "tile.h"

namespace tk {

// Binary functors: combine(x, y) in the accumulator's type. Where the order makes no difference to the result, except
// perhaps which NaN it is, a reduction may take another one.
struct Sum {
    template <class T> static constexpr bool any_order = !Num<T>::is_float;
    template <class T> TK_METHOD T operator()(T x, T y) const { return add(x, y); }
};
struct Min {
    template <class T> static constexpr bool any_order = true;
    template <class T> TK_METHOD T operator()(T x, T y) const { return min(x, y); }
};
struct Max {
    template <class T> static constexpr bool any_order = true;
    template <class T> TK_METHOD T operator()(T x, T y) const { return max(x, y); }
};

// What a sum of T is accumulated in: f32 for f16 and bf16, else T.
template <class T> using accumulator_t = conditional_t<is_half<T>, f32, T>;

constexpr int kLanes = 32;

// Combines the Count lanes that exist into part[0].
template <int Count, int Half = kLanes / 2, class Acc, class F> TK_FN Acc combine_lanes(Acc* part, F combine)
{
    TK_UNROLL_BY(kLanes)
    for (int i = 0; i < Half && i + Half < Count; ++i) part[i] = combine(part[i], part[i + Half]);
    if constexpr (Half > 1) return combine_lanes<Count, Half / 2>(part, combine);
    else return part[0];
}

// The reduction of src[0], src[stride], ... src[(N - 1) * stride] by one thread.
template <int N, class Acc, class T, class F> TK_FN Acc reduce_run(const T* src, i64 stride, F combine)
{
    constexpr int count = N < kLanes ? N : kLanes, whole = N / kLanes * kLanes;
    Acc part[count];
    TK_UNROLL_BY(kLanes)
    for (int l = 0; l < count; ++l) part[l] = cast<Acc>(src[l * stride]);
    TK_UNROLL_BY(1)
    for (int e = kLanes; e < whole; e += kLanes)
        TK_UNROLL_BY(kLanes)
        for (int l = 0; l < count; ++l) part[l] = combine(part[l], cast<Acc>(src[(e + l) * stride]));
    TK_UNROLL_BY(kLanes)
    for (int l = 0; N > kLanes && whole + l < N; ++l) part[l] = combine(part[l], cast<Acc>(src[(whole + l) * stride]));
    return combine_lanes<count>(part, combine);
}

// The offset in elements of element number e, counted row by row.
template <int... Dims> TK_FN i64 tile_element(const i64 (&stride)[sizeof...(Dims)], int e)
{
    typedef Shape<Dims...> S;
    return tile_row<Dims...>(stride, e / S::last()) + (e % S::last()) * stride[S::rank - 1];
}
// The offsets of the first element of reduction number e along Axis, and of its result.
template <int Axis, int... Dims>
TK_FN void reduction_at(int e, const i64 (&stride)[sizeof...(Dims)], const i64 (&dst_stride)[sizeof...(Dims)],
                        i64& from, i64& to)
{
    typedef Shape<Dims...> S;
    u32 rest = (u32)e;
    from = to = 0;
    TK_UNROLL
    for (int x = S::rank - 1; x >= 0; --x) {
        if (x == Axis) continue;
        const u32 extent = (u32)S::dim(x);
        from += (i64)(rest % extent) * stride[x];
        to += (i64)(rest % extent) * dst_stride[x];
        rest /= extent;
    }
}

#ifdef TK_CUDA
// x of the lane that is `by` further in the warp.
template <class T> TK_FN T lane_after(T x, int by)
{
    typedef typename Word<(int)sizeof(T)>::type W;
    typedef conditional_t<sizeof(T) == 8, u64, u32> Moved;
    return bit_cast<T>((W)__shfl_down_sync(0xffffffffu, (Moved)bit_cast<W>(x), by));
}
// combine_lanes() of the first `count` of each L lanes of a warp, for the first of them; all lanes call it.
template <int L, class Acc, class F> TK_FN Acc combine_warp(Acc part, int lane, int count, F combine)
{
    TK_UNROLL
    for (int half = L / 2; half; half /= 2) {
        const Acc other = lane_after(part, half);
        if (lane + half < count) part = combine(part, other);
    }
    return part;
}
// What one of L lanes combines from the left; a lane beyond N, anything.
template <int N, int L, class Acc, class F, class At> TK_FN Acc lane_part(int lane, F combine, At at)
{
    Acc part = cast<Acc>(at(lane < N ? lane : 0));
    TK_UNROLL_BY(8)
    for (int e = L; e + L <= N; e += L) part = combine(part, cast<Acc>(at(e + lane)));
    if constexpr (N > L && N % L != 0)
        if (lane < N % L) part = combine(part, cast<Acc>(at(N / L * L + lane)));
    return part;
}
// reduce_run() by L lanes of a warp, for the first of them; all lanes call it.
template <int N, int L, class Acc, class F, class At> TK_FN Acc reduce_lanes(int lane, F combine, At at)
{
    return combine_warp<L>(lane_part<N, L, Acc>(lane, combine, at), lane, N, combine);
}
// A tile as its elements in row-major order, and one run of a tile.
template <class T, int... Dims> struct Elements {
    const T* src;
    i64 stride[sizeof...(Dims)];
    bool dense;
    TK_METHOD T operator()(int e) const { return src[dense ? e : (int)tile_element<Dims...>(stride, e)]; }
};
template <class T> struct Run {
    const T* src;
    i64 stride;
    TK_METHOD T operator()(int e) const { return src[e * stride]; }
};

// Whether lanes of a warp may meet: a block of other sizes has a warp without some of them.
template <class TM> TK_FN bool has_whole_warps(TM team) { return TM::threads > 0 || team.size() % kLanes == 0; }

// reduce_run() by threads that are no whole warps: each takes some of the lanes, and then combines them all.
template <int N, class Acc, class F, class At, class TM>
TK_FN Acc reduce_apart(TM team, F combine, Acc* scratch, At at)
{
    constexpr int count = N < kLanes ? N : kLanes;
    for (int l = team.rank(); l < count; l += team.size()) scratch[l] = lane_part<N, kLanes, Acc>(l, combine, at);
    team.sync();
    Acc parts[count];
    TK_UNROLL
    for (int l = 0; l < count; ++l) parts[l] = scratch[l];
    team.sync();  // scratch may be used again
    return combine_lanes<count>(parts, combine);
}

template <class T, class Acc, class F, int... Dims, class TM>
TK_FN Acc team_reduce_all(TM team, const T* src, const i64 (&stride)[sizeof...(Dims)], F combine, Acc* scratch)
{
    constexpr int n = Shape<Dims...>::size;
    Elements<T, Dims...> at{src, {}, is_dense<Dims...>(stride)};
    TK_UNROLL
    for (int x = 0; x < (int)sizeof...(Dims); ++x) at.stride[x] = stride[x];
    if (!has_whole_warps(team)) return reduce_apart<n>(team, combine, scratch, at);
    const int rank = team.rank(), warp = rank / kLanes, lane = rank % kLanes;
    int warps = 1;
    if constexpr (F::template any_order<Acc>) {  // by all warps
        const int size = team.size();
        Acc part = cast<Acc>(at(rank < n ? rank : 0));
        TK_UNROLL_BY(8)
        for (int e = rank + size; e < n; e += size) part = combine(part, cast<Acc>(at(e)));
        part = combine_warp<kLanes>(part, lane, n - warp * kLanes, combine);
        warps = ((n < size ? n : size) + kLanes - 1) / kLanes;
        if (lane == 0 && warp < warps) scratch[warp] = part;
    } else if (warp == 0) {
        const Acc found = reduce_lanes<n, kLanes, Acc>(lane, combine, at);
        if (lane == 0) scratch[0] = found;
    }
    team.sync();
    Acc found = scratch[0];
    for (int w = 1; w < warps; ++w) found = combine(found, scratch[w]);
    team.sync();  // scratch may be used again
    return found;
}

// Along an axis whose elements lie side by side, or where there are few results, some lanes of a warp make each result;
// else, and where there are no whole warps, each thread makes its own.
template <int Axis, class T, class Acc, class TO, class F, int... Dims, class TM>
TK_FN void team_reduce_axis(TM team, TO* dst, const i64 (&dst_stride)[sizeof...(Dims)], const T* src,
                            const i64 (&stride)[sizeof...(Dims)], F combine)
{
    typedef Shape<Dims...> S;
    constexpr int n = S::dim(Axis), results = S::size / n, threads = TM::threads ? TM::threads : 128;
    constexpr int L = n > 16 ? 32 : n > 8 ? 16 : n > 4 ? 8 : 4, per_warp = kLanes / L;
    i64 from, to;
    if constexpr (n > 4 && (Axis == S::rank - 1 || results * 4 <= threads)) {
        if (has_whole_warps(team)) {
            const int lane = team.rank() % L, first = team.rank() / L, step = team.size() / kLanes * per_warp;
            for (int base = 0; base < results; base += step) {
                const int e = base + first;
                reduction_at<Axis, Dims...>(e < results ? e : 0, stride, dst_stride, from, to);
                const Acc found = reduce_lanes<n, L, Acc>(lane, combine, Run<T>{src + from, stride[Axis]});
                if (lane == 0 && e < results) dst[to] = cast<TO>(found);
            }
            return;
        }
    }
    for (int e = team.rank(); e < results; e += team.size()) {
        reduction_at<Axis, Dims...>(e, stride, dst_stride, from, to);
        dst[to] = cast<TO>(reduce_run<n, Acc>(src + from, stride[Axis], combine));
    }
}
#endif

// The reduction of a whole tile, its elements counted row by row; every thread of the team gets it. `scratch` holds
// kLanes values that the team shares.
template <class T, class Acc, class F, int... Dims, class TM>
TK_FN Acc reduce_all(TM team, const T* src, const i64 (&stride)[sizeof...(Dims)], F combine, Acc* scratch)
{
#ifdef TK_CUDA
    return team_reduce_all<T, Acc, F, Dims...>(team, src, stride, combine, scratch);
#else
    static_assert(TM::alone, "on the CPU one thread reduces a tile");
    constexpr int n = Shape<Dims...>::size, count = n < kLanes ? n : kLanes;
    if (is_dense<Dims...>(stride)) return reduce_run<n, Acc>(src, 1, combine);
    for (int l = team.rank(); l < count; ++l) {
        Acc part = cast<Acc>(src[tile_element<Dims...>(stride, l)]);
        for (int e = l + kLanes; e < n; e += kLanes)
            part = combine(part, cast<Acc>(src[tile_element<Dims...>(stride, e)]));
        scratch[l] = part;
    }
    return combine_lanes<count>(scratch, combine);
#endif
}

// dst = the reduction along axis Axis, converted to TO: dst has one element for each index of the other axes, with
// these element strides (the one of Axis is ignored). Every element is reduced in the same fixed order.
template <int Axis, class T, class Acc, class TO, class F, int... Dims, class TM>
TK_FN void reduce_axis(TM team, TO* dst, const i64 (&dst_stride)[sizeof...(Dims)], const T* src,
                       const i64 (&stride)[sizeof...(Dims)], F combine)
{
    typedef Shape<Dims...> S;
    static_assert(Axis >= 0 && Axis < S::rank, "the tile has no such axis");
#ifdef TK_CUDA
    team_reduce_axis<Axis, T, Acc, TO, F, Dims...>(team, dst, dst_stride, src, stride, combine);
#else
    static_assert(TM::alone, "on the CPU one thread reduces a tile");
    constexpr int n = S::dim(Axis);
    for (int e = team.rank(); e < S::size / n; ++e) {
        i64 from, to;
        reduction_at<Axis, Dims...>(e, stride, dst_stride, from, to);
        dst[to] = cast<TO>(reduce_run<n, Acc>(src + from, stride[Axis], combine));
    }
#endif
}

}  // namespace tk
#endif
