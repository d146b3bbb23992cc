// Where rows of a tile lie in shared memory, so that those who read it together meet different banks.
#ifndef TILEKIT_NATIVE_SWIZZLE_H
#define TILEKIT_NATIVE_SWIZZLE_H
#include "base.h"

namespace tk {

// How rows of 16-byte chunks lie in memory so that a read of one column by several rows meets every bank once: the units
// (of Unit bytes) of a row are exchanged by the bits of its number from Shift on. Rows are not padded, whatever their
// length; a length of an odd number of units needs no exchange.
template <int Unit, int Shift, int Pitch> struct Swizzle {
    static_assert(Pitch % Unit == 0, "rows must be whole units");
    static constexpr int units = Pitch / Unit, banks = 128 / Unit;
    static constexpr int mixed = units % 8 == 0 && banks == 8 ? 8 : units % 4 == 0 ? 4 : units % 2 == 0 ? 2 : 1;
    static constexpr bool known = true;  // turn and further say how places differ
    // How many rows there are until the exchange repeats.
    static constexpr int period = mixed == 1 ? 1 : banks << Shift;
    static TK_METHOD constexpr int exchange(int row) { return (row >> Shift) / (banks / mixed) & (mixed - 1); }
    static TK_METHOD constexpr int offset(int row, int byte)
    {
        return row * Pitch + (byte / Unit ^ exchange(row)) * Unit + byte % Unit;
    }
    // offset(r + row, b + byte) = (offset(r, b) ^ turn(row, byte)) + further(row, byte), where r and row, and b and byte,
    // have no bit in common below what the exchange repeats after. So what differs between threads is computed once.
    static TK_METHOD constexpr int turn(int row, int byte)
    {
        return ((byte / Unit ^ exchange(row)) & (mixed - 1)) * Unit;
    }
    static TK_METHOD constexpr int further(int row, int byte)
    {
        return row * Pitch + byte / (Unit * mixed) * (Unit * mixed) + byte % Unit;
    }
};
enum Access {
    kMatrices,   // eight neighbouring rows, 16 bytes of each: ldmatrix
    kElements,   // four neighbouring rows, an element or two of each lane
    kRuns,       // every fourth of 32 rows, 16 bytes of each: register-blocked threads
    kDense,      // as one of these, but rows lie one behind the other
};
template <int Pitch> struct InOrder {
    static constexpr bool known = true;
    static constexpr int period = 1;
    static TK_METHOD constexpr int offset(int row, int byte) { return row * Pitch + byte; }
    static TK_METHOD constexpr int turn(int, int) { return 0; }
    static TK_METHOD constexpr int further(int row, int byte) { return row * Pitch + byte; }
};
template <class T, int Pitch, bool KMajor, int How> struct PlaceOf {
    typedef Swizzle<How == kElements && Pitch % 32 == 0 ? 32 : 16, How == kRuns && KMajor ? 2 : 0, Pitch> type;
};
template <class T, int Pitch, bool KMajor> struct PlaceOf<T, Pitch, KMajor, kDense> { typedef InOrder<Pitch> type; };

}  // namespace tk
#endif
