// Factors of a product in shared memory, as the threads that multiply them see them: element (x, k) of a factor is the
// one at row x of a, or column x of b, and at position k of the sum.
#ifndef TILEKIT_NATIVE_OPERAND_H
#define TILEKIT_NATIVE_OPERAND_H
#include "ptx.h"
#include "swizzle.h"

#ifdef TK_CUDA
namespace tk {

// A number whose bits above the 13 lowest are x's nearest tf32; NaN, infinities and what would round to one stay.
constexpr f32 kLargeTf32 = 0x1.ffep127f;
TK_FN u32 round_tf32(u32 x)
{
    return fabsf(bit_cast<f32>(x)) < kLargeTf32 ? x + 0x1000u : x;
}

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
    // The address of element (x + dx, k + dk) from that of (x, k), under the conditions of Swizzle::turn.
    static TK_METHOD u32 moved(u32 from, int dx, int dk)
    {
        const int row = KMajor ? dx : dk, byte = (KMajor ? dk : dx) * (int)sizeof(T);
        return (from ^ (u32)Place::turn(row, byte)) + (u32)Place::further(row, byte);
    }
    // Whether that serves rows (columns) whose distances share no bit with the first one (Apart), or else are, like the
    // first one, multiples of `unit` and less.
    static TK_METHOD constexpr bool movable(bool apart, int unit)
    {
        return apart || Place::period == 1 || (KMajor ? unit % Place::period : unit * (int)sizeof(T) % 128) == 0;
    }
};

// A factor of X x K elements in shared memory with any element strides; zero beyond its extents. Read element by
// element.
template <class T, int X_, int K_, int StrideX, int StrideK> struct StridedOperand {
    typedef T Element;
    static constexpr int X = X_, K = K_;
    static constexpr bool shared = false, k_major = StrideK == 1;
    const T* memory;
    static TK_METHOD constexpr bool movable(bool, int) { return false; }
    template <class To> TK_METHOD To at(int x, int k) const
    {
        return x < X && k < K ? cast<To>(memory[x * StrideX + k * StrideK]) : To{};
    }
};

// What a thread reads of an operand: the element (x, k) of a warp's part that it reads first, and others at distances that
// all threads have in common. Apart says that addresses of those come from that of the first.
template <class Op, bool Apart> struct Spot {
    Op from;
    int x, k;
    TK_METHOD u32 address(int dx, int dk) const
    {
        if constexpr (Apart) return Op::moved(from.address(x, k), dx, dk);
        else return from.address(x + dx, k + dk);
    }
    template <class To> TK_METHOD To at(int dx, int dk) const
    {
        if constexpr (Op::shared) return cast<To>(read_shared(address(dx, dk), typename Op::Element()));
        else return from.template at<To>(x + dx, k + dk);
    }
};

}  // namespace tk
#endif
#endif
