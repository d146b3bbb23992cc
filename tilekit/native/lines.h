// The rows and columns of a product's sums that a thread holds. Their layouts (layout.h) have two axes, and each row of a
// thread meets each of its columns in one register.
#ifndef TILEKIT_NATIVE_LINES_H
#define TILEKIT_NATIVE_LINES_H
#include "layout.h"

namespace tk {

// A thread's rows (Axis 0) or columns (Axis 1), counted in their order.
template <class L, int Axis> struct Lines {
    typedef typename L::Registers Registers;
    static constexpr int extent = L::Shape::at(Axis), bits = Registers::of_axis(Axis), count = L::repeats(Axis) << bits;
    // Neighbours that a thread holds, and lanes and warps that hold different ones.
    static constexpr int run = Registers::lowest(Axis);
    static constexpr int lanes = 1 << L::Lanes::of_axis(Axis);
    static constexpr int warps = (L::group_axis == Axis ? L::groups : 1) << L::Warps::of_axis(Axis);
    // How far number n is from the thread's first one, and what it adds to the number of a register.
    static TK_METHOD constexpr int at(int n)
    {
        return spread<Registers, Axis>(scatter<Registers, Axis>(n)) + (n >> bits) * L::span(Axis);
    }
    static TK_METHOD constexpr int number(int n)
    {
        return scatter<Registers, Axis>(n) + (n >> bits) * (L::own * (Axis == 0 ? L::repeats(1) : 1));
    }
    // The first one of a warp.
    static TK_METHOD int of_warp(int rank)
    {
        return L::template first<Axis>(rank) - spread<typename L::Lanes, Axis>(rank % 32);
    }
    // Whether the places in shared memory of what all of a warp's lanes read from an operand follow from that of the
    // first: distances share no bit with it, or none of those that places exchange.
    template <class Op> static TK_METHOD constexpr bool movable()
    {
        return Op::movable(L::group_axis != Axis || L::repeats(Axis) == 1, 1 << L::bits(Axis));
    }
};
// The register of a thread's row and column.
template <class L> TK_FN constexpr int register_at(int row, int column)
{
    return Lines<L, 0>::number(row) + Lines<L, 1>::number(column);
}

}  // namespace tk
#endif
