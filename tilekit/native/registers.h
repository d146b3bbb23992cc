// Tiles that lie in the registers of a team's threads (layout.h), from and to arrays. Neighbours that a thread holds are
// moved in packs of up to 16 bytes. Padding is loaded as zero and never stored.
#ifndef TILEKIT_NATIVE_REGISTERS_H
#define TILEKIT_NATIVE_REGISTERS_H
#include "layout.h"
#include "tile_team.h"

namespace tk {

// V neighbours along an axis of a layout that a thread holds: their registers differ in the bits of the axis' lowest
// coordinates.
template <class L, int Axis, int V> struct RegisterRun {
    static TK_METHOD constexpr int member(int i, int v) { return i + scatter<typename L::Registers, Axis>(v); }
    static TK_METHOD constexpr bool begins(int i) { return (i & scatter<typename L::Registers, Axis>(V - 1)) == 0; }
};

// The part of an array under a tile of Dims that a thread holds as L says; L has the tile's axes, or one, along which
// the elements are counted row by row. Elements along Axis that are neighbours lie side by side where V is not 1.
template <class L, int Axis, int V, class T, int... Dims> struct HeldWindow {
    typedef Shape<Dims...> S;
    typedef Pack<V * (int)sizeof(T)> P;
    static constexpr int last = S::rank - 1;
    static constexpr bool by_axes = L::rank == S::rank;
    typedef RegisterRun<L, by_axes ? Axis : 0, V> Run;
    Window<T, S::rank> window;
    int thread, first[L::rank];
    u64 begin;  // of the thread's first element along Axis, so that its others are constants further

    TK_METHOD HeldWindow(int rank, const Window<T, S::rank>& w) : window(w), thread(rank), begin(w.base)
    {
        find_first<0>();
        if (by_axes) begin += (u64)(u32)first[by_axes ? Axis : 0] * step(Axis);
    }
    template <int X> TK_METHOD void find_first()
    {
        if constexpr (X < L::rank) {
            first[X] = L::template first<X>(thread);
            find_first<X + 1>();
        }
    }
    TK_METHOD u64 step(int x) const { return V > 1 && x == Axis ? (u64)sizeof(T) : (u64)window.stride[x]; }
    // The address of the run that begins in register i, and false where it is outside the tile or array. Whole says that
    // nothing is.
    template <bool Whole = false> TK_METHOD bool find(int i, u64& address) const
    {
        address = begin;
        if constexpr (by_axes) {
            const bool ok = find_axis<Whole, 0>(i, address);
            address += (u64)(u32)L::template further<Axis>(i) * step(Axis);
            return ok;
        } else {
            int rest = first[0] + L::template further<0>(i);
            bool ok = true;
            TK_UNROLL
            for (int x = last; x >= 0; --x) {
                const int at = x ? (int)((u32)rest % (u32)S::dim(x)) : rest;
                address += (u64)(u32)at * step(x);
                ok = ok && (Whole || is_in(x, at));
                rest = (int)((u32)rest / (u32)S::dim(x));
            }
            return Whole || ok;
        }
    }
    template <bool Whole, int X> TK_METHOD bool find_axis(int i, u64& address) const
    {
        if constexpr (X == S::rank) {
            return true;
        } else {
            const int at = first[X] + L::template further<X>(i);
            if (X != Axis) address += (u64)(u32)at * step(X);
            const bool ok = Whole || is_in(X, at);
            return find_axis<Whole, X + 1>(i, address) & ok;  // no branches
        }
    }
    TK_METHOD bool is_in(int x, int at) const
    {
        return (u32)(at - window.range[x].lo) < (u32)(window.range[x].hi - window.range[x].lo);
    }
    // Whether every run is one aligned pack, and none lies half inside.
    TK_METHOD bool fits() const { return V == 1 || Runs<V, false, Dims...>::fit_window(window); }
    // Whether every register holds an element of the array: one question for all of them.
    TK_METHOD bool is_whole() const { return !L::ragged && window.whole; }

    template <bool Whole> TK_METHOD P get(int i) const
    {
        u64 from;
        P pack{};
        const bool ok = find<Whole>(i, from);
        if constexpr (Whole && !L::ragged) return take(global_pointer<const P>(from));
        if (ok) pack = *global_pointer<const P>(from);
        return pack;
    }
    // The registers of `Count` from number `from` on, which hold whole runs.
    template <bool Whole, int Count> TK_METHOD void load_part(T* r, int from) const
    {
        TK_UNROLL
        for (int j = 0; j < Count; ++j) {
            const int i = from + j;
            if (!Run::begins(i)) continue;
            T x[V];
            unpack(x, get<Whole>(i));
            TK_UNROLL
            for (int v = 0; v < V; ++v) r[Run::member(i, v)] = x[v];
        }
    }
    template <int Count> TK_METHOD void load(T* r, int from) const
    {
        if (is_whole()) load_part<true, Count>(r, from);
        else load_part<false, Count>(r, from);
    }
    // Calls f with the address and the elements of each run that lies inside.
    template <class F> TK_METHOD void each_run(const T* r, F f) const
    {
        if (is_whole()) each_run_of<true>(r, f);
        else each_run_of<false>(r, f);
    }
    template <bool Whole, class F> TK_METHOD void each_run_of(const T* r, F f) const
    {
        TK_UNROLL
        for (int i = 0; i < L::registers; ++i) {
            if (!Run::begins(i)) continue;
            u64 to;
            T x[V];
            TK_UNROLL
            for (int v = 0; v < V; ++v) x[v] = r[Run::member(i, v)];
            if (find<Whole>(i, to)) f(to, x);
        }
    }
};
struct PutRun {
    template <class T, int V> TK_METHOD void operator()(u64 to, const T (&x)[V]) const
    {
        put(global_pointer<Pack<V * (int)sizeof(T)>>(to), pack<V * (int)sizeof(T)>(x));
    }
};

// r = the elements of a tile under an array, zero where that is outside of it; as load(). V neighbours along Axis are
// moved at once: where that is Known, the array's elements lie side by side there, its address and other strides, its
// extent and the offset along Axis are multiples of V; else a launch finds out, and Axis is the last one.
// Of r, `Count` registers from number `from` on are loaded, which hold whole runs.
template <class L, int Axis, int V, bool Known, int Count, int... Dims, class T>
TK_FN void load_registers(int rank, T (&r)[L::registers], const Array<T, sizeof...(Dims)>& a,
                          const i64 (&offset)[sizeof...(Dims)], int from = 0)
{
    const Window<T, sizeof...(Dims)> w = window<T, Dims...>(a, offset);
    const HeldWindow<L, Axis, V, T, Dims...> held(rank, w);
    if (Known || held.fits()) held.template load<Count>(r, from);
    else HeldWindow<L, Axis, 1, T, Dims...>(rank, w).template load_part<false, Count>(r, from);
}
// The array's elements under a tile = r; elements outside are dropped, as in store().
template <class L, int Axis, int V, bool Known, int... Dims, class T>
TK_FN void store_registers(int rank, const T (&r)[L::registers], const Array<T, sizeof...(Dims)>& a,
                           const i64 (&offset)[sizeof...(Dims)])
{
    static_assert(!L::has_copies, "an element would be stored by several threads");
    const Window<T, sizeof...(Dims)> w = window<T, Dims...>(a, offset);
    const HeldWindow<L, Axis, V, T, Dims...> held(rank, w);
    if (Known || held.fits()) held.each_run(r, PutRun{});
    else HeldWindow<L, Axis, 1, T, Dims...>(rank, w).template each_run_of<false>(r, PutRun{});
}

#ifdef TK_CUDA
template <class T> TK_FN T other_lane(T x, int distance)
{
    typedef conditional_t<sizeof(T) == 8, u64, u32> Moved;
    typedef typename Word<(int)sizeof(T)>::type W;
    return bit_cast<T>((W)__shfl_xor_sync(~0u, (Moved)bit_cast<W>(x), distance));
}
// The registers of the layout in which bit R of a register's number and bit B of a lane's have changed places: of two
// lanes that differ in it, each gives the other one half of what it has.
template <int R, int B, class T, int Count> TK_FN void swap_bits(int rank, T (&to)[Count], const T (&from)[Count])
{
    const bool odd = rank >> B & 1;
    TK_UNROLL
    for (int i = 0; i < Count; ++i) {
        if (i >> R & 1) continue;
        const T low = from[i], high = from[i | 1 << R], other = other_lane(odd ? low : high, 1 << B);
        to[i] = odd ? other : low;
        to[i | 1 << R] = odd ? high : other;
    }
}
#endif

}  // namespace tk
#endif
