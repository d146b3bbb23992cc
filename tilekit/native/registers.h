// Tiles that lie in the registers of a team's threads (layout.h), from and to arrays. Runs of neighbours that a thread
// holds are moved in packs of up to 16 bytes where all addresses allow it. Padding is loaded as zero and never stored.
#ifndef TILEKIT_NATIVE_REGISTERS_H
#define TILEKIT_NATIVE_REGISTERS_H
#include "layout.h"
#include "tile_team.h"

namespace tk {

// How many neighbours along the last axis, of `last` elements, are moved as one pack.
template <class L, class T> TK_CONSTANT int register_run(int last)
{
    const int own = L::run(L::rank - 1), most = 16 / (int)sizeof(T);
    return power_of_two(last, own < most ? own : most);
}

// The part of an array under a tile of Dims that a thread holds as L says; L has the tile's axes, or one, along which
// the elements are counted row by row.
template <class L, class T, int... Dims> struct HeldWindow {
    typedef Shape<Dims...> S;
    static constexpr int last = S::rank - 1;
    static constexpr bool by_axes = L::rank == S::rank;
    Window<T, S::rank> window;
    int thread, first[L::rank];
    u64 begin;  // of the thread's first column, so that its others are constants further

    TK_METHOD HeldWindow(int rank, const Window<T, S::rank>& w) : window(w), thread(rank), begin(w.base)
    {
        find_first<0>();
        if (by_axes) begin += (u64)(u32)first[L::rank - 1] * (u64)w.stride[last];
    }
    template <int Axis> TK_METHOD void find_first()
    {
        if constexpr (Axis < L::rank) {
            first[Axis] = L::template first<Axis>(thread);
            find_first<Axis + 1>();
        }
    }
    // The address of the run of V elements that begins in register i, and false where it is outside the tile or array.
    template <int V> TK_METHOD bool find(int i, u64& address) const
    {
        int rest = first[0] + L::further(0, i);
        bool ok = true;
        address = begin;
        TK_UNROLL
        for (int x = last; x >= 0; --x) {
            const int further = by_axes ? L::further(x, i) : 0, number = x ? (int)((u32)rest % (u32)S::dim(x)) : rest;
            const int at = by_axes ? first[x] + further : number;
            const u64 step = V > 1 && x == last ? (u64)sizeof(T) : (u64)window.stride[x];
            address += (u64)(u32)(by_axes && x == last ? further : at) * step;
            ok = ok && (u32)(at - window.range[x].lo) < (u32)(window.range[x].hi - window.range[x].lo);
            rest = (int)((u32)rest / (u32)S::dim(x));
        }
        return (window.whole && L::is_held(thread, i)) || ok;
    }
};

template <int V, class L, class T, int... Dims>
TK_FN void load_packs(const HeldWindow<L, T, Dims...>& held, T (&r)[L::registers])
{
    TK_UNROLL
    for (int i = 0; i < L::registers; i += V) {
        u64 from;
        Pack<V * (int)sizeof(T)> pack{};
        if (held.template find<V>(i, from)) pack = *global_pointer<const Pack<V * (int)sizeof(T)>>(from);
        unpack(&r[i], pack);
    }
}
template <int V, class L, class T, int... Dims>
TK_FN void store_packs(const HeldWindow<L, T, Dims...>& held, const T (&r)[L::registers])
{
    TK_UNROLL
    for (int i = 0; i < L::registers; i += V) {
        u64 to;
        if (held.template find<V>(i, to))
            put(global_pointer<Pack<V * (int)sizeof(T)>>(to), pack<V * (int)sizeof(T)>(&r[i]));
    }
}

// r = the elements of a tile under an array, zero where that is outside of it; as load().
template <class L, int... Dims, class T>
TK_FN void load_registers(int rank, T (&r)[L::registers], const Array<T, sizeof...(Dims)>& a,
                          const i64 (&offset)[sizeof...(Dims)])
{
    constexpr int V = register_run<L, T>(Shape<Dims...>::last());
    const HeldWindow<L, T, Dims...> held(rank, window<T, Dims...>(a, offset));
    if (V == 1 || Runs<V, false, Dims...>::fit_window(held.window)) load_packs<V>(held, r);
    else load_packs<1>(held, r);
}
// The array's elements under a tile = r; elements outside are dropped, as in store().
template <class L, int... Dims, class T>
TK_FN void store_registers(int rank, const T (&r)[L::registers], const Array<T, sizeof...(Dims)>& a,
                           const i64 (&offset)[sizeof...(Dims)])
{
    static_assert(!L::has_copies, "an element would be stored by several threads");
    constexpr int V = register_run<L, T>(Shape<Dims...>::last());
    const HeldWindow<L, T, Dims...> held(rank, window<T, Dims...>(a, offset));
    if (V == 1 || Runs<V, false, Dims...>::fit_window(held.window)) store_packs<V>(held, r);
    else store_packs<1>(held, r);
}

}  // namespace tk
#endif
