// The instructions of native/ptx.h as the PTX manual describes them, for the emulator.
#ifndef TILEKIT_NATIVE_PTX_H
#define TILEKIT_NATIVE_PTX_H
#include "cast.h"

namespace tk {

TK_FN u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

template <int Bytes> TK_FN void copy_async(u32 to, u64 from, int valid) { emulator::start_copy(to, from, valid, Bytes); }
TK_FN void copy_async_whole(u32 to, u64 from) { emulator::start_copy(to, from, 16, 16); }
TK_FN void copies_end() { emulator::end_copies(); }
template <int N> TK_FN void copies_left() { emulator::finish_copies(N); }

// Matrix `number` of those whose rows' addresses the lanes posted, elements (row, col).
TK_FN u32 matrix_element(int number, int row, int col)
{
    u16 x;
    memcpy(&x, emulator::shared(emulator::from_lane<u32>(number * 8 + row, 0), 16) + 2 * col, 2);
    return x;
}
template <bool Transposed, int N> TK_FN void load_matrices(u32 (&r)[N], u32 row)
{
    emulator::post(&row, 1);
    const int g = emulator::own_lane() / 4, t = emulator::own_lane() % 4 * 2;
    for (int i = 0; i < N; ++i) {
        const u32 low = Transposed ? matrix_element(i, t, g) : matrix_element(i, g, t);
        const u32 high = Transposed ? matrix_element(i, t + 1, g) : matrix_element(i, g, t + 1);
        r[i] = low | high << 16;
    }
}

template <class T> TK_FN T read_shared(u32 from, T)
{
    T x;
    memcpy(&x, emulator::shared(from, sizeof(T)), sizeof(T));
    return x;
}
TK_FN void read_shared(u32 from, f32& a, f32& b, f32& c, f32& d)
{
    const char* at = emulator::shared(from, 16);
    memcpy(&a, at, 4), memcpy(&b, at + 4, 4), memcpy(&c, at + 8, 4), memcpy(&d, at + 12, 4);
}
TK_FN void write_shared(u32 to, u16 x) { memcpy(emulator::shared(to, 2), &x, 2); }
TK_FN void write_shared(u32 to, u32 x) { memcpy(emulator::shared(to, 4), &x, 4); }
TK_FN void write_shared(u32 to, u32 a, u32 b, u32 c, u32 d)
{
    const u32 x[] = {a, b, c, d};
    memcpy(emulator::shared(to, 16), x, 16);
}

// One element of a register: half `which` of 16-bit ones.
TK_FN f64 item_of(u32 word, int which, f16) { return to_f64(f16{(u16)(word >> 16 * which)}); }
TK_FN f64 item_of(u32 word, int which, bf16) { return to_f64(bf16{(u16)(word >> 16 * which)}); }
TK_FN f64 item_of(u32 word, int, f32) { return (f64)bit_cast<f32>(word & 0xffffe000u); }
TK_FN f64 item_of(f64 word, int, f64) { return word; }

// For a of 16 x K and b of K x 8 elements, `Packed` of them in a register.
template <int Packed, class S, class W, class T> TK_FN void multiply_add_in_warp(S* sum, const W* a, const W* b, T item)
{
    const W words[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    emulator::post(words, 6);
    const int lane = emulator::own_lane();
    for (int j = 0; j < 4; ++j) {
        const int row = lane / 4, col = lane % 4 * 2 + j % 2;
        f64 total = (f64)sum[j];
        for (int k = 0; k < 8 * Packed; ++k) {
            const int half = k / (4 * Packed), t = k % (4 * Packed) / Packed, which = k % Packed;
            const W x = emulator::from_lane<W>(row * 4 + t, 2 * half + j / 2), y = emulator::from_lane<W>(col * 4 + t, 4 + half);
            total = ::fma(item_of(x, which, item), item_of(y, which, item), total);
        }
        sum[j] = (S)total;
    }
}
TK_FN void multiply_add(f32* sum, const u32* a, const u32* b, f16 item) { multiply_add_in_warp<2>(sum, a, b, item); }
TK_FN void multiply_add(f32* sum, const u32* a, const u32* b, bf16 item) { multiply_add_in_warp<2>(sum, a, b, item); }
TK_FN void multiply_add(f32* sum, const u32* a, const u32* b, f32 item) { multiply_add_in_warp<1>(sum, a, b, item); }
TK_FN void multiply_add(f64* sum, const f64* a, const f64* b, f64 item) { multiply_add_in_warp<1>(sum, a, b, item); }

template <class T> TK_FN void add_words(T* to, const u32 (&v)[4])
{
    T x[16 / sizeof(T)];
    memcpy(x, v, 16);
    for (int i = 0; i < (int)(16 / sizeof(T)); ++i) to[i] = cast<T>(cast<f32>(to[i]) + cast<f32>(x[i]));
}

}  // namespace tk
#endif
