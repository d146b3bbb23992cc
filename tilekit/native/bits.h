// Bit operations under the names that kernels call them by.
#ifndef TILEKIT_NATIVE_BITS_H
#define TILEKIT_NATIVE_BITS_H
#include "scalar.h"

namespace tk {

template <class T> TK_FN T invert(T a) { return bit_not(a); }
template <class T> TK_FN T lshift(T a, T count) { return shl(a, count); }
template <class T> TK_FN T rshift(T a, T count) { return shr(a, count); }

// The number of bits set, of a negative number in two's complement of its width.
template <class T> TK_FN i32 bit_count(T x)
{
    u64 v = (u64)x & (~0ull >> (64 - Num<T>::bits));
    v -= (v >> 1) & 0x5555555555555555ull;
    v = (v & 0x3333333333333333ull) + ((v >> 2) & 0x3333333333333333ull);
    v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (i32)((v * 0x0101010101010101ull) >> 56);
}

}  // namespace tk
#endif
