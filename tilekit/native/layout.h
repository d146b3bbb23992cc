// Which thread of a team holds which element of a tile in which register: tilekit/codegen/layouts in C++.
#ifndef TILEKIT_NATIVE_LAYOUT_H
#define TILEKIT_NATIVE_LAYOUT_H
#include "base.h"

namespace tk {

// Numbers; of a list of bits, each is a coordinate's bit, axis * 32 + position, or -1 for copies.
template <int... Values> struct List {
    static constexpr int count = sizeof...(Values);
    static TK_METHOD constexpr int at(int i)
    {
        const int values[] = {Values..., 0};
        return values[i];
    }
    static TK_METHOD constexpr bool is_of(int i, int axis) { return at(i) >= 0 && at(i) / 32 == axis; }
    // How many bits are of an axis.
    static TK_METHOD constexpr int of_axis(int axis)
    {
        int found = 0;
        for (int i = 0; i < count; ++i) found += is_of(i, axis);
        return found;
    }
    // What the bits that are set in a number add to the coordinate along an axis.
    static TK_METHOD constexpr int sum(int axis, int number)
    {
        int found = 0;
        for (int i = 0; i < count; ++i)
            if (is_of(i, axis) && number >> i & 1) found += 1 << at(i) % 32;
        return found;
    }
    // Where copies are.
    static TK_METHOD constexpr int copies()
    {
        int found = 0;
        for (int i = 0; i < count; ++i) found |= (at(i) < 0) << i;
        return found;
    }
    // Neighbours along an axis that the bits number.
    static TK_METHOD constexpr int lowest(int axis)
    {
        int n = 0;
        for (int i = 0; i < count;)
            if (at(i++) == axis * 32 + n) ++n, i = 0;
        return 1 << n;
    }
    // How many bits from number i on are neighbours.
    static TK_METHOD constexpr int neighbours(int i)
    {
        int n = 1;
        while (i + n < count && at(i + n) == at(i) + n) ++n;
        return n;
    }
};
// sum() as arithmetic, also of a number that only runs know: bits that stay neighbours are moved at once.
template <class Bits, int Axis, int I = 0> TK_FN constexpr int spread(int number)
{
    if constexpr (I >= Bits::count) {
        return 0;
    } else if constexpr (!Bits::is_of(I, Axis)) {
        return spread<Bits, Axis, I + 1>(number);
    } else {
        constexpr int count = Bits::neighbours(I), to = Bits::at(I) % 32, by = to - I, mask = ((1 << count) - 1) << to;
        return ((by >= 0 ? number << (by >= 0 ? by : 0) : number >> (by >= 0 ? 0 : -by)) & mask) +
               spread<Bits, Axis, I + count>(number);
    }
}

// The number whose bits along an axis are those of n, lowest first: the inverse, but for where they lie.
template <class Bits, int Axis, int I = 0> TK_FN constexpr int scatter(int n)
{
    if constexpr (I >= Bits::count) return 0;
    else if constexpr (!Bits::is_of(I, Axis)) return scatter<Bits, Axis, I + 1>(n);
    else return (n & 1) << I | scatter<Bits, Axis, I + 1>(n >> 1);
}

// A tile of a shape whose elements lie in the registers of a team's threads: a core, repeated along each axis until it
// covers the tile. Registers, Lanes and Warps are the core's bits; Groups is how many groups of such threads there are,
// and the axis along which they follow each other, or -1. Threads are counted by their ranks in the team.
template <class Shape_, class Registers_, class Lanes_, class Warps_, class Groups_ = List<1, -1>> struct Layout {
    typedef Shape_ Shape;
    typedef Registers_ Registers;
    typedef Lanes_ Lanes;
    typedef Warps_ Warps;
    typedef Groups_ Groups;
    static constexpr int rank = Shape::count, own = 1 << Registers::count, group_bits = Lanes::count + Warps::count;
    static constexpr int groups = Groups::at(0), group_axis = Groups::at(1), threads = groups << group_bits;

    static TK_METHOD constexpr int bits(int axis)
    {
        return Registers::of_axis(axis) + Lanes::of_axis(axis) + Warps::of_axis(axis);
    }
    static TK_METHOD constexpr int span(int axis) { return (axis == group_axis ? groups : 1) << bits(axis); }
    static TK_METHOD constexpr int repeats(int axis) { return (Shape::at(axis) + span(axis) - 1) / span(axis); }
    static TK_METHOD constexpr int all_repeats()
    {
        int found = 1;
        for (int axis = 0; axis < rank; ++axis) found *= repeats(axis);
        return found;
    }
    static constexpr int registers = own * all_repeats();

    // How far along an axis the element of register i is from that of register 0.
    template <int Axis> static TK_METHOD constexpr int further(int i)
    {
        int below = own;
        for (int x = rank - 1; x > Axis; --x) below *= repeats(x);
        return spread<Registers, Axis>(i) + i / below % repeats(Axis) * span(Axis);
    }
    // The coordinate of a thread's register 0, and the farthest that any has.
    template <int Axis> static TK_METHOD int first(int thread)
    {
        const int at = spread<Lanes, Axis>(thread) + spread<Warps, Axis>(thread >> Lanes::count);
        if constexpr (Axis == group_axis) return at + ((thread >> group_bits) << bits(Axis));
        return at;
    }
    static TK_METHOD constexpr int most_first(int axis)
    {
        return Lanes::sum(axis, -1) + Warps::sum(axis, -1) + (axis == group_axis ? (groups - 1) << bits(axis) : 0);
    }

    // Neighbours along an axis that a thread holds in registers that follow each other.
    static TK_METHOD constexpr int run(int axis)
    {
        int n = 0;
        while (n < Registers::count && Registers::at(n) == axis * 32 + n) ++n;
        return 1 << n;
    }
    // Whether along an axis no thread holds padding in register i, what lies beyond the shape.
    template <int Axis> static TK_METHOD constexpr bool surely(int i)
    {
        return Shape::at(Axis) % span(Axis) == 0 || most_first(Axis) + further<Axis>(i) < Shape::at(Axis);
    }
    // Whether some threads hold padding.
    static TK_METHOD constexpr bool has_padding()
    {
        bool found = false;
        for (int axis = 0; axis < rank; ++axis) found = found || Shape::at(axis) % span(axis) != 0;
        return found;
    }
    static constexpr bool ragged = has_padding();
    // Whether a thread holds an element of the tile in register i, from an axis on.
    template <int Axis = 0> static TK_METHOD bool is_held(int thread, int i)
    {
        if constexpr (Axis == rank) return true;
        else
            return (surely<Axis>(i) || first<Axis>(thread) + further<Axis>(i) < Shape::at(Axis)) &&
                   is_held<Axis + 1>(thread, i);
    }
    // Whether no thread with a smaller rank holds the same elements.
    static TK_METHOD bool is_first(int thread)
    {
        constexpr int mask = Lanes::copies() | Warps::copies() << Lanes::count;
        return (thread & mask) == 0 && (groups == 1 || group_axis >= 0 || thread >> group_bits == 0);
    }
    static constexpr bool has_copies =
        Lanes::copies() != 0 || Warps::copies() != 0 || (groups > 1 && group_axis < 0);
    // The register of the layout without an axis that holds what register i holds along the others.
    static TK_METHOD constexpr int kept(int gone, int i)
    {
        int found = 0, step = 1, rest = i / own;
        for (int b = 0; b < Registers::count; ++b)
            if (!Registers::is_of(b, gone)) found += (i >> b & 1) * step, step *= 2;
        for (int x = rank - 1; x >= 0; --x) {
            if (x != gone) found += rest % repeats(x) * step, step *= repeats(x);
            rest /= repeats(x);
        }
        return found;
    }
};

}  // namespace tk
#endif
