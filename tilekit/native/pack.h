// Packs: up to 16 bytes of consecutive elements that are read and written at once.
#ifndef TILEKIT_NATIVE_PACK_H
#define TILEKIT_NATIVE_PACK_H
#include "base.h"

#ifdef TK_CUDA
#define TK_PACK(bytes) alignas(bytes)
#else
#define TK_PACK(bytes) __attribute__((may_alias, aligned(bytes)))
#endif

namespace tk {

template <int Bytes> struct Word;
template <> struct Word<1> { typedef u8 type; };
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<8> { typedef u64 type; };

template <int Bytes> struct TK_PACK(Bytes) Pack { typename Word<Bytes>::type word; };
template <> struct TK_PACK(16) Pack<16> { u64 word[2]; };

// The largest power of two that divides n, at most `most`.
TK_CONSTANT int power_of_two(int n, int most)
{
    int found = 1;
    while (found < most && n % (2 * found) == 0) found *= 2;
    return found;
}
// How many elements a pack has that never straddles the end of a row of `row` elements.
template <class T> TK_CONSTANT int pack_width(int row) { return power_of_two(row, 16 / (int)sizeof(T)); }

// Whether p, which may point to anything but an array's memory, is a multiple of Bytes.
template <int Bytes> TK_FN bool is_aligned(const void* p)
{
#ifdef TK_CUDA
    return (__cvta_generic_to_shared(p) & (Bytes - 1)) == 0;  // the compiler knows a tile's offset in shared memory
#else
    return ((u64)p & (Bytes - 1)) == 0;
#endif
}

// The elements of a pack.
template <class T, int Bytes> TK_FN void unpack(T* to, const Pack<Bytes>& pack)
{
#ifdef TK_CUDA
    memcpy(to, &pack, Bytes);
#else
    __builtin_memcpy(to, &pack, Bytes);
#endif
}
template <int Bytes, class T> TK_FN Pack<Bytes> pack(const T* from)
{
    Pack<Bytes> found;
#ifdef TK_CUDA
    memcpy(&found, from, Bytes);
#else
    __builtin_memcpy(&found, from, Bytes);
#endif
    return found;
}

// *to = a pack, where `to` points into an array. On CUDA this is one instruction; of a plain assignment the compiler
// makes several where the elements are floats.
template <int Bytes> TK_FN void put(Pack<Bytes>* to, const Pack<Bytes>& pack)
{
#ifdef TK_CUDA
    if constexpr (Bytes == 16) {
        asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(pack.word[0]), "l"(pack.word[1]) : "memory");
        return;
    }
    if constexpr (Bytes == 8) {
        asm volatile("st.global.b64 [%0], %1;" ::"l"(to), "l"(pack.word) : "memory");
        return;
    }
#endif
    *to = pack;
}
// A pack of an array, for the same reason.
template <int Bytes> TK_FN Pack<Bytes> take(const Pack<Bytes>* from)
{
#ifdef TK_CUDA
    Pack<Bytes> pack;
    if constexpr (Bytes == 16) {
        u64 low, high;
        asm volatile("ld.global.v2.b64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(from) : "memory");
        pack.word[0] = low, pack.word[1] = high;
        return pack;
    }
    if constexpr (Bytes == 8) {
        asm volatile("ld.global.b64 %0, [%1];" : "=l"(pack.word) : "l"(from) : "memory");
        return pack;
    }
#endif
    return *from;
}

}  // namespace tk
#endif
