// Moving tiles between arrays and the threads' registers. Thread `rank` of Threads holds the elements
// (i * Threads + rank) * V + j of a tile in register i * V + j; V divides the last extent.
#ifndef TILEKIT_NATIVE_REGISTERS_H
#define TILEKIT_NATIVE_REGISTERS_H
#include "tile.h"

#ifdef TK_CUDA
namespace tk {

template <int Threads, int V, class T, int... Dims>
TK_FN void load_registers(Team team, T* r, const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Shape<Dims...> S;
    constexpr int n = S::last(), rounds = (S::size + Threads * V - 1) / (Threads * V), last = S::rank - 1;
    const Window<T, S::rank> w = window<T, Dims...>(a, offset);
    #pragma unroll
    for (int i = 0; i < rounds; ++i) {
        const int e = (i * Threads + team.rank()) * V;
        if (e >= S::size) break;
        u64 from;
        const bool row = window_row<T, Dims...>(w, e / n, from);
        #pragma unroll
        for (int j = 0; j < V; ++j) {
            const int x = e % n + j;
            const bool ok = row && x >= w.range[last].lo && x < w.range[last].hi;
            r[i * V + j] = ok ? *(const T*)(from + (u64)x * (u64)w.stride[last]) : T{};
        }
    }
}

template <int Threads, int V, class T, int... Dims>
TK_FN void store_registers(Team team, const T* r, const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Shape<Dims...> S;
    constexpr int n = S::last(), rounds = (S::size + Threads * V - 1) / (Threads * V), last = S::rank - 1;
    const Window<T, S::rank> w = window<T, Dims...>(a, offset);
    #pragma unroll
    for (int i = 0; i < rounds; ++i) {
        const int e = (i * Threads + team.rank()) * V;
        if (e >= S::size) break;
        u64 to;
        const bool row = window_row<T, Dims...>(w, e / n, to);
        #pragma unroll
        for (int j = 0; j < V; ++j) {
            const int x = e % n + j;
            if (row && x >= w.range[last].lo && x < w.range[last].hi) *(T*)(to + (u64)x * (u64)w.stride[last]) = r[i * V + j];
        }
    }
}

}  // namespace tk
#endif
#endif
