// Tiles moved by many threads: packs of 16 bytes where all addresses allow it, else element by element. Which of the
// two is decided once for the whole team. Each thread begins several reads before it waits for the first.
#ifndef TILEKIT_NATIVE_TILE_TEAM_H
#define TILEKIT_NATIVE_TILE_TEAM_H
#include "pack.h"
#include "window.h"

namespace tk {

// How many runs a thread has in flight: what falls to it, but no more packs than pay, and fewer single elements, whose
// addresses are more code.
TK_CONSTANT int in_flight(int count, int threads, bool packs)
{
    const int most = packs ? 8 : 4, each = threads ? (count + threads - 1) / threads : 4;
    return each < most ? each : most;
}

// Whether batches of so many for each thread use up `count` without rest.
template <class TM> TK_CONSTANT bool comes_out_even(int count, int batch)
{
    return TM::threads > 0 && count % (batch * (TM::threads ? TM::threads : 1)) == 0;
}

// A tile as runs of V consecutive elements, numbered row by row or, if Swapped, along the axis before the last first.
template <int V, bool Swapped, int... Dims> struct Runs {
    typedef Shape<Dims...> S;
    static constexpr int rank = S::rank, count = S::size / V;
    // The indices of the first element of run number e.
    static TK_METHOD void find(int e, int (&at)[rank])
    {
        u32 rest = (u32)e;
        TK_UNROLL
        for (int i = rank - 1; i >= 0; --i) {
            const int x = !Swapped || i < rank - 2 ? i : 2 * rank - 3 - i;
            const u32 extent = (u32)(x == rank - 1 ? S::dim(x) / V : S::dim(x));
            at[x] = (int)(i ? rest % extent : rest);
            rest /= extent;
        }
        at[rank - 1] *= V;
    }
    // The offset in elements of these indices in a tile.
    static TK_METHOD int in_tile(const int (&at)[rank], const i64 (&stride)[rank])
    {
        int offset = 0;
        TK_UNROLL
        for (int x = 0; x < rank; ++x) offset += at[x] * (int)stride[x];
        return offset;
    }
    // The address of these indices under a window, and false if they are outside.
    template <class T> static TK_METHOD bool in_window(const int (&at)[rank], const Window<T, rank>& w, u64& address)
    {
        bool ok = true;
        address = w.base;
        TK_UNROLL
        for (int x = 0; x < rank; ++x) {
            ok = ok && (u32)(at[x] - w.range[x].lo) < (u32)(w.range[x].hi - w.range[x].lo);
            const i64 step = V > 1 && x == rank - 1 ? (i64)sizeof(T) : w.stride[x];
            address += (u64)(u32)at[x] * (u64)step;
        }
        return w.whole || ok;
    }
    // Whether every run is one aligned pack of a tile, and of a window, where none lies half inside.
    template <class T> static TK_METHOD bool fit_tile(const T* tile, const i64 (&stride)[rank])
    {
        bool fit = is_aligned<V * (int)sizeof(T)>(tile) && stride[rank - 1] == 1;
        TK_UNROLL
        for (int x = 0; x < rank - 1; ++x) fit = fit && (S::dim(x) == 1 || stride[x] % V == 0);
        return fit;
    }
    template <class T> static TK_METHOD bool fit_window(const Window<T, rank>& w)
    {
        u64 bits = w.base;
        TK_UNROLL
        for (int x = 0; x < rank - 1; ++x) bits |= S::dim(x) == 1 ? 0 : (u64)w.stride[x];
        const Range r = w.range[rank - 1];
        const bool aligned = (bits & (V * sizeof(T) - 1)) == 0, split = ((r.lo | r.hi) & (V - 1)) != 0;
        return w.stride[rank - 1] == (i64)sizeof(T) && aligned && !split;
    }
};
// Whether consecutive elements of the array lie along the axis before the last.
template <class T, int... Dims> TK_FN bool is_swapped(const Window<T, sizeof...(Dims)>& w)
{
    typedef Shape<Dims...> S;
    if constexpr (S::rank < 2) return false;
    else return w.stride[S::rank - 2] == (i64)sizeof(T) && w.stride[S::rank - 1] != (i64)sizeof(T);
}

template <int V, bool Swapped, class T, int... Dims, class TM>
TK_FN void load_runs(TM team, T* dst, const i64 (&stride)[sizeof...(Dims)], const Window<T, sizeof...(Dims)>& w)
{
    typedef Runs<V, Swapped, Dims...> R;
    typedef Pack<V * (int)sizeof(T)> P;
    constexpr int batch = in_flight(R::count, TM::threads, V > 1);
    constexpr bool even = comes_out_even<TM>(R::count, batch);
    TK_UNROLL_BY(1)
    for (int first = team.rank(); first < R::count; first += batch * team.size()) {
        P held[batch];
        int to[batch];
        TK_UNROLL
        for (int b = 0; b < batch; ++b) {
            int at[R::rank];
            u64 from;
            const int e = first + b * team.size();
            held[b] = P{};
            R::find(e, at);
            to[b] = R::in_tile(at, stride);
            if (R::in_window(at, w, from) && (even || e < R::count)) held[b] = *global_pointer<const P>(from);
        }
        TK_UNROLL
        for (int b = 0; b < batch; ++b)
            if (even || first + b * team.size() < R::count) *(P*)(dst + to[b]) = held[b];
    }
}
template <int V, bool Swapped, class T, int... Dims, class TM>
TK_FN void store_runs(TM team, const T* src, const i64 (&stride)[sizeof...(Dims)], const Window<T, sizeof...(Dims)>& w)
{
    typedef Runs<V, Swapped, Dims...> R;
    typedef Pack<V * (int)sizeof(T)> P;
    constexpr int batch = in_flight(R::count, TM::threads, V > 1);
    constexpr bool even = comes_out_even<TM>(R::count, batch);
    TK_UNROLL_BY(1)
    for (int first = team.rank(); first < R::count; first += batch * team.size()) {
        TK_UNROLL
        for (int b = 0; b < batch; ++b) {
            int at[R::rank];
            u64 to;
            const int e = first + b * team.size();
            R::find(e, at);
            const P* const from = (const P*)(src + R::in_tile(at, stride));
            if (R::in_window(at, w, to) && (even || e < R::count)) put(global_pointer<P>(to), *from);
        }
    }
}
template <int V, class T, int... Dims, class TM>
TK_FN void copy_runs(TM team, T* dst, const i64 (&dst_stride)[sizeof...(Dims)], const T* src,
                     const i64 (&src_stride)[sizeof...(Dims)])
{
    typedef Runs<V, false, Dims...> R;
    typedef Pack<V * (int)sizeof(T)> P;
    TK_UNROLL_BY(4)
    for (int e = team.rank(); e < R::count; e += team.size()) {
        int at[R::rank];
        R::find(e, at);
        *(P*)(dst + R::in_tile(at, dst_stride)) = *(const P*)(src + R::in_tile(at, src_stride));
    }
}

template <class T, int... Dims, class TM>
TK_FN void team_load(TM team, T* dst, const i64 (&stride)[sizeof...(Dims)], const Window<T, sizeof...(Dims)>& w)
{
    constexpr int V = pack_width<T>(Shape<Dims...>::last());
    typedef Runs<V, false, Dims...> R;
    if (V > 1 && R::fit_tile(dst, stride) && R::fit_window(w)) load_runs<V, false, T, Dims...>(team, dst, stride, w);
    else if (is_swapped<T, Dims...>(w)) load_runs<1, (R::rank > 1), T, Dims...>(team, dst, stride, w);
    else load_runs<1, false, T, Dims...>(team, dst, stride, w);
}
template <class T, int... Dims, class TM>
TK_FN void team_store(TM team, const T* src, const i64 (&stride)[sizeof...(Dims)], const Window<T, sizeof...(Dims)>& w)
{
    constexpr int V = pack_width<T>(Shape<Dims...>::last());
    typedef Runs<V, false, Dims...> R;
    if (V > 1 && R::fit_tile(src, stride) && R::fit_window(w)) store_runs<V, false, T, Dims...>(team, src, stride, w);
    else if (is_swapped<T, Dims...>(w)) store_runs<1, (R::rank > 1), T, Dims...>(team, src, stride, w);
    else store_runs<1, false, T, Dims...>(team, src, stride, w);
}
template <class T, int... Dims, class TM>
TK_FN void team_copy(TM team, T* dst, const i64 (&dst_stride)[sizeof...(Dims)], const T* src,
                     const i64 (&src_stride)[sizeof...(Dims)])
{
    constexpr int V = pack_width<T>(Shape<Dims...>::last());
    typedef Runs<V, false, Dims...> R;
    if (V > 1 && R::fit_tile(dst, dst_stride) && R::fit_tile(src, src_stride))
        copy_runs<V, T, Dims...>(team, dst, dst_stride, src, src_stride);
    else copy_runs<1, T, Dims...>(team, dst, dst_stride, src, src_stride);
}
template <int Size, class T, class TM> TK_FN void team_fill(TM team, T* dst, T value)
{
    constexpr int V = pack_width<T>(Size);
    typedef Pack<V * (int)sizeof(T)> P;
    if (V > 1 && is_aligned<V * (int)sizeof(T)>(dst)) {
        T run[V];
        TK_UNROLL
        for (int v = 0; v < V; ++v) run[v] = value;
        const P held = pack<V * (int)sizeof(T)>(run);
        TK_UNROLL_BY(4)
        for (int e = team.rank(); e < Size / V; e += team.size()) ((P*)dst)[e] = held;
        return;
    }
    for (int e = team.rank(); e < Size; e += team.size()) dst[e] = value;
}

}  // namespace tk
#endif
