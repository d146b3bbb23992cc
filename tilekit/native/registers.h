// Tiles held by the threads of a block in registers. Of N elements, counted row by row, thread `rank` of Threads holds
// number ((i * Threads + rank) * V + v) in its register i * V + v: runs of V, so that neighbouring threads read and
// write neighbouring packs of memory. Registers beyond the tile hold zero when loaded and are never stored.
#ifndef TILEKIT_NATIVE_REGISTERS_H
#define TILEKIT_NATIVE_REGISTERS_H
#include "tile_team.h"

namespace tk {

// The V of a tile whose last axis has `last` elements, and how many registers a thread needs for N elements.
template <class T> TK_CONSTANT int register_width(int last) { return pack_width<T>(last); }
template <int N, int Threads, int V> constexpr int register_count = (N + Threads * V - 1) / (Threads * V) * V;
// Whether run number i of a thread is in a tile of `count` runs; known to the compiler except for the last ones.
template <int Threads> TK_FN bool is_held(int i, int rank, int count)
{
    return (i + 1) * Threads <= count || i * Threads + rank < count;
}
// The number of the element in register j of a thread.
template <int Threads, int V> TK_FN int register_element(int rank, int j)
{
    return (j / V * Threads + rank) * V + j % V;
}

// r = the elements of a tile under an array, zero where that is outside of it; as load().
template <class T, int Threads, int V, int... Dims>
TK_FN void load_registers(int rank, T (&r)[register_count<tile_size<Dims...>, Threads, V>],
                          const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Runs<V, false, Dims...> R;
    typedef Runs<1, false, Dims...> One;
    constexpr int bytes = V * (int)sizeof(T);
    const Window<T, R::rank> w = window<T, Dims...>(a, offset);
    if (V == 1 || R::fit_window(w)) {
        TK_UNROLL
        for (int i = 0; i < register_count<R::count * V, Threads, V>; i += V) {
            const int e = i / V * Threads + rank;
            int at[R::rank];
            u64 from;
            Pack<bytes> held{};
            R::find(e, at);
            if (R::in_window(at, w, from) && is_held<Threads>(i / V, rank, R::count))
                held = *global_pointer<const Pack<bytes>>(from);
            unpack(&r[i], held);
        }
        return;
    }
    TK_UNROLL
    for (int j = 0; j < register_count<R::count * V, Threads, V>; ++j) {
        const int e = register_element<Threads, V>(rank, j);
        int at[R::rank];
        u64 from;
        One::find(e, at);
        r[j] = T{};
        if (One::in_window(at, w, from) && is_held<Threads>(j / V, rank, R::count))
            r[j] = *global_pointer<const T>(from);
    }
}

// The array's elements under a tile = r; elements outside are dropped, as in store().
template <class T, int Threads, int V, int... Dims>
TK_FN void store_registers(int rank, const T (&r)[register_count<tile_size<Dims...>, Threads, V>],
                           const Array<T, sizeof...(Dims)>& a, const i64 (&offset)[sizeof...(Dims)])
{
    typedef Runs<V, false, Dims...> R;
    typedef Runs<1, false, Dims...> One;
    constexpr int bytes = V * (int)sizeof(T);
    const Window<T, R::rank> w = window<T, Dims...>(a, offset);
    if (V == 1 || R::fit_window(w)) {
        TK_UNROLL
        for (int i = 0; i < register_count<R::count * V, Threads, V>; i += V) {
            const int e = i / V * Threads + rank;
            int at[R::rank];
            u64 to;
            R::find(e, at);
            if (R::in_window(at, w, to) && is_held<Threads>(i / V, rank, R::count))
                put(global_pointer<Pack<bytes>>(to), pack<bytes>(&r[i]));
        }
        return;
    }
    TK_UNROLL
    for (int j = 0; j < register_count<R::count * V, Threads, V>; ++j) {
        const int e = register_element<Threads, V>(rank, j);
        int at[R::rank];
        u64 to;
        One::find(e, at);
        if (One::in_window(at, w, to) && is_held<Threads>(j / V, rank, R::count)) *global_pointer<T>(to) = r[j];
    }
}

// The same to and from a tile in memory with these element strides, as copy().
template <class T, int Threads, int V, int... Dims>
TK_FN void read_registers(int rank, T (&r)[register_count<tile_size<Dims...>, Threads, V>], const T* src,
                          const i64 (&stride)[sizeof...(Dims)])
{
    typedef Runs<V, false, Dims...> R;
    typedef Runs<1, false, Dims...> One;
    constexpr int bytes = V * (int)sizeof(T);
    const bool packs = V > 1 && R::fit_tile(src, stride);
    TK_UNROLL
    for (int j = 0; j < register_count<R::count * V, Threads, V>; ++j) {
        const int e = register_element<Threads, V>(rank, j);
        int at[R::rank];
        if (j % V == 0 && packs) {
            Pack<bytes> held{};
            R::find(e / V, at);
            if (is_held<Threads>(j / V, rank, R::count)) held = *(const Pack<bytes>*)(src + R::in_tile(at, stride));
            unpack(&r[j], held);
        } else if (!packs) {
            One::find(e, at);
            r[j] = is_held<Threads>(j / V, rank, R::count) ? src[One::in_tile(at, stride)] : T{};
        }
    }
}
template <class T, int Threads, int V, int... Dims>
TK_FN void write_registers(int rank, const T (&r)[register_count<tile_size<Dims...>, Threads, V>], T* dst,
                           const i64 (&stride)[sizeof...(Dims)])
{
    typedef Runs<V, false, Dims...> R;
    typedef Runs<1, false, Dims...> One;
    constexpr int bytes = V * (int)sizeof(T);
    const bool packs = V > 1 && R::fit_tile(dst, stride);
    TK_UNROLL
    for (int j = 0; j < register_count<R::count * V, Threads, V>; ++j) {
        const int e = register_element<Threads, V>(rank, j);
        int at[R::rank];
        if (!is_held<Threads>(j / V, rank, R::count)) continue;
        if (j % V == 0 && packs) {
            R::find(e / V, at);
            *(Pack<bytes>*)(dst + R::in_tile(at, stride)) = pack<bytes>(&r[j]);
        } else if (!packs) {
            One::find(e, at);
            dst[One::in_tile(at, stride)] = r[j];
        }
    }
}

}  // namespace tk
#endif
