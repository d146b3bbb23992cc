// Factors of a product in shared memory, as the threads that multiply them see them: element (x, k) of a factor is the
// one at row x of a, or column x of b, and at position k of the sum.
#ifndef TILEKIT_NATIVE_OPERAND_H
#define TILEKIT_NATIVE_OPERAND_H
#include "ptx.h"

#ifdef TK_CUDA
namespace tk {

// How rows of 16-byte chunks lie in memory so that a read of one column by several rows meets every bank once: the units
// (of Unit bytes) of a row are exchanged by the bits of its number from Shift on. Rows are not padded, whatever their
// length; a length of an odd number of units needs no exchange.
template <int Unit, int Shift, int Pitch> struct Swizzle {
    static_assert(Pitch % Unit == 0, "rows must be whole units");
    static constexpr int units = Pitch / Unit, banks = 128 / Unit;
    static constexpr int mixed = units % 8 == 0 && banks == 8 ? 8 : units % 4 == 0 ? 4 : units % 2 == 0 ? 2 : 1;
    // How many rows there are until the exchange repeats.
    static constexpr int period = mixed == 1 ? 1 : banks << Shift;
    static TK_METHOD constexpr int offset(int row, int byte)
    {
        const int unit = byte / Unit ^ ((row >> Shift) / (banks / mixed) & (mixed - 1));
        return row * Pitch + unit * Unit + byte % Unit;
    }
};
enum Access {
    kMatrices,   // eight neighbouring rows, 16 bytes of each: ldmatrix
    kElements,   // four neighbouring rows, an element or two of each lane
    kRuns,       // every fourth of 32 rows, 16 bytes of each: register-blocked threads
    kDense,      // as one of these, but rows lie one behind the other
};
template <int Pitch> struct InOrder {
    static constexpr int period = 1;
    static TK_METHOD constexpr int offset(int row, int byte) { return row * Pitch + byte; }
};
template <class T, int Pitch, bool KMajor, int How> struct PlaceOf {
    typedef Swizzle<How == kElements && Pitch % 32 == 0 ? 32 : 16, How == kRuns && KMajor ? 2 : 0, Pitch> type;
};
template <class T, int Pitch, bool KMajor> struct PlaceOf<T, Pitch, KMajor, kDense> { typedef InOrder<Pitch> type; };

// A factor of X x K elements in shared memory whose rows run along k (KMajor) or along x, `Length` elements apart (0: as
// many as a row has), which are whole multiples of 16 bytes. X and K are whole blocks of what reads it; what is beyond
// the product's own extents is zero along k and anything along x.
template <class T, int X_, int K_, bool KMajor, int How, int Length = 0> struct SharedOperand {
    typedef T Element;
    static constexpr int X = X_, K = K_;
    static constexpr bool shared = true, k_major = KMajor;
    static constexpr int rows = KMajor ? X : K, cols = KMajor ? K : X;
    static constexpr int pitch = (Length ? Length : cols) * (int)sizeof(T), bytes = (rows * pitch + 127) / 128 * 128;
    static_assert(pitch % 16 == 0 && (How == kDense || Length == 0), "rows must be whole packs, exchanged ones dense");
    typedef typename PlaceOf<T, pitch, KMajor, How>::type Place;
    u32 memory;  // its address: a multiple of 128, of 16 if kDense
    // Where row `row`'s element `col` lies, in bytes.
    static TK_METHOD constexpr int offset(int row, int col) { return Place::offset(row, col * (int)sizeof(T)); }
    TK_METHOD u32 address(int x, int k) const { return memory + (KMajor ? offset(x, k) : offset(k, x)); }
    template <class To> TK_METHOD To at(int x, int k) const { return cast<To>(read_shared(address(x, k), T())); }
};

// A factor of X x K elements in shared memory with any element strides; zero beyond its extents. Read element by
// element.
template <class T, int X_, int K_, int StrideX, int StrideK> struct StridedOperand {
    typedef T Element;
    static constexpr int X = X_, K = K_;
    static constexpr bool shared = false, k_major = StrideK == 1;
    const T* memory;
    template <class To> TK_METHOD To at(int x, int k) const
    {
        return x < X && k < K ? cast<To>(memory[x * StrideX + k * StrideK]) : To{};
    }
};

}  // namespace tk
#endif
#endif
