// Reductions of strided tiles in one fixed order, whatever the size of the team: n elements are taken as 32 lanes,
// lane l combining elements l, l + 32, l + 64, ... from the left; the lanes are then halved, lane i taking in lane
// i + 16, then i + 8, 4, 2, 1. No identity is needed: a lane starts from its first element and missing ones are skipped.
#ifndef TILEKIT_NATIVE_REDUCE_H
#define TILEKIT_NATIVE_REDUCE_H
#include "tile.h"

namespace tk {

// Binary functors: combine(x, y) in the accumulator's type.
struct Sum { template <class T> TK_METHOD T operator()(T x, T y) const { return add(x, y); } };
struct Min { template <class T> TK_METHOD T operator()(T x, T y) const { return min(x, y); } };
struct Max { template <class T> TK_METHOD T operator()(T x, T y) const { return max(x, y); } };

// What a sum of T is accumulated in: f32 for f16 and bf16, else T.
template <class T> using accumulator_t = conditional_t<is_half<T>, f32, T>;

constexpr int kLanes = 32;

// Combines the lanes that exist into part[0].
template <class Acc, class F> TK_FN Acc combine_lanes(Acc* part, int count, F combine)
{
    for (int half = kLanes / 2; half; half >>= 1)
        for (int i = 0; i < half; ++i)
            if (i + half < count) part[i] = combine(part[i], part[i + half]);
    return part[0];
}

// The reduction of src[0], src[stride], ... src[(N - 1) * stride] by one thread.
template <int N, class Acc, class T, class F> TK_FN Acc reduce_run(const T* src, i64 stride, F combine)
{
    constexpr int count = N < kLanes ? N : kLanes, whole = N / kLanes * kLanes;
    Acc part[kLanes];
    for (int l = 0; l < count; ++l) part[l] = cast<Acc>(src[l * stride]);
    for (int e = kLanes; e < whole; e += kLanes)
        for (int l = 0; l < kLanes; ++l) part[l] = combine(part[l], cast<Acc>(src[(e + l) * stride]));
    for (int l = 0; N > kLanes && whole + l < N; ++l)
        part[l] = combine(part[l], cast<Acc>(src[(whole + l) * stride]));
    return combine_lanes(part, count, combine);
}

// The offset in elements of element number e, counted row by row.
template <int... Dims> TK_FN i64 tile_element(const i64 (&stride)[sizeof...(Dims)], int e)
{
    typedef Shape<Dims...> S;
    return tile_row<Dims...>(stride, e / S::last()) + (e % S::last()) * stride[S::rank - 1];
}

// The reduction of a whole tile, its elements counted row by row; every thread of the team gets it. `scratch` holds
// kLanes values that the team shares.
template <class T, class Acc, class F, int... Dims>
TK_FN Acc reduce_all(Team team, const T* src, const i64 (&stride)[sizeof...(Dims)], F combine, Acc* scratch)
{
    constexpr int n = Shape<Dims...>::size, count = n < kLanes ? n : kLanes;
#ifndef TK_CUDA
    if (is_dense<Dims...>(stride)) return reduce_run<n, Acc>(src, 1, combine);
#endif
    for (int l = team.rank(); l < count; l += team.size()) {
        Acc part = cast<Acc>(src[tile_element<Dims...>(stride, l)]);
        for (int e = l + kLanes; e < n; e += kLanes) part = combine(part, cast<Acc>(src[tile_element<Dims...>(stride, e)]));
        scratch[l] = part;
    }
    team.sync();
    Acc part[kLanes];
    for (int l = 0; l < count; ++l) part[l] = scratch[l];
    team.sync();  // scratch may be used again
    return combine_lanes(part, count, combine);
}

// dst = the reduction along axis Axis, converted to TO: dst has one element for each index of the other axes, with
// these element strides (the one of Axis is ignored). Every element is reduced in the same fixed order.
template <int Axis, class T, class Acc, class TO, class F, int... Dims>
TK_FN void reduce_axis(Team team, TO* dst, const i64 (&dst_stride)[sizeof...(Dims)], const T* src,
                       const i64 (&stride)[sizeof...(Dims)], F combine)
{
    typedef Shape<Dims...> S;
    static_assert(Axis >= 0 && Axis < S::rank, "the tile has no such axis");
    constexpr int n = S::dim(Axis);
    for (int e = team.rank(); e < S::size / n; e += team.size()) {
        int rest = e;
        i64 from = 0, to = 0;
        for (int x = S::rank - 1; x >= 0; --x) {
            if (x == Axis) continue;
            from += (rest % S::dim(x)) * stride[x];
            to += (rest % S::dim(x)) * dst_stride[x];
            rest /= S::dim(x);
        }
        dst[to] = cast<TO>(reduce_run<n, Acc>(src + from, stride[Axis], combine));
    }
}

}  // namespace tk
#endif
