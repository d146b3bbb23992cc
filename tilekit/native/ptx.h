// CUDA instructions that C++ has no name for: asynchronous copies into shared memory, loads of matrices from it, and the
// tensor cores' multiply-adds. Shared memory is addressed by 32-bit numbers here.
#ifndef TILEKIT_NATIVE_PTX_H
#define TILEKIT_NATIVE_PTX_H
#include "cast.h"
#include "pack.h"

#ifdef TK_CUDA
namespace tk {

TK_FN u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

TK_FN void write_shared(u32 to, u16 x) { asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(x) : "memory"); }
TK_FN void write_shared(u32 to, u32 x) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(x) : "memory"); }
TK_FN void write_shared(u32 to, u32 a, u32 b, u32 c, u32 d)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

#if __CUDA_ARCH__ >= 800
// Starts to copy Bytes (4, 8 or 16, both addresses multiples of that) from global to shared memory, of which the first
// `valid` come from memory and the others are zero.
template <int Bytes> TK_FN void copy_async(u32 to, u64 from, int valid)
{
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "asynchronous copies move 4, 8 or 16 bytes");
    if constexpr (Bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(Bytes), "r"(valid) : "memory");
}
// The same for 16 bytes that are all there, which takes fewer instructions.
TK_FN void copy_async_whole(u32 to, u64 from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// Ends a group of the copies that this thread has started; copies_left<N> waits until at most N groups are under way.
TK_FN void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> TK_FN void copies_left() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#else
// Before sm_80 nothing copies by itself: a thread loads and stores, and is done at once.
template <int Bytes> TK_FN void copy_async(u32 to, u64 from, int valid)
{
    if (valid == Bytes) {
        const Pack<Bytes> read = *global_pointer<const Pack<Bytes>>(from);  // at once; else it may be read byte by byte
        u32 x[Bytes / 4];
        unpack(x, read);
        if constexpr (Bytes == 16) write_shared(to, x[0], x[1], x[2], x[3]);
        else {
            TK_UNROLL
            for (int i = 0; i < Bytes / 4; ++i) write_shared(to + 4 * i, x[i]);
        }
    } else {
        TK_UNROLL_BY(1)
        for (int i = 0; i < Bytes; i += 2)
            write_shared(to + i, i < valid ? *global_pointer<const u16>(from + (u64)i) : (u16)0);
    }
}
TK_FN void copy_async_whole(u32 to, u64 from) { copy_async<16>(to, from, 16); }
TK_FN void copies_end() {}
template <int N> TK_FN void copies_left() {}
#endif

// Four (two) matrices of 8 x 8 16-bit elements: the thread of lane l passes the address of row l % 8 of matrix l / 8 and
// gets of each matrix elements 2 * (l % 4) and the next of row l / 4, or transposed, of column l / 4.
template <bool Transposed> TK_FN void load_matrices(u32 (&r)[4], u32 row)
{
    if constexpr (Transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row));
}
template <bool Transposed> TK_FN void load_matrices(u32 (&r)[2], u32 row)
{
    if constexpr (Transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(row));
    else asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(row));
}

// What lies at an address in shared memory. Volatile, so that a load stays behind the wait that it needs, but no load
// forgets what the compiler knows of other memory.
TK_FN u16 read_shared(u32 from, u16)
{
    u16 x;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(from));
    return x;
}
TK_FN f16 read_shared(u32 from, f16) { return f16{read_shared(from, u16())}; }
TK_FN bf16 read_shared(u32 from, bf16) { return bf16{read_shared(from, u16())}; }
TK_FN f32 read_shared(u32 from, f32)
{
    f32 x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from));
    return x;
}
TK_FN f64 read_shared(u32 from, f64)
{
    f64 x;
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(from));
    return x;
}
TK_FN void read_shared(u32 from, f32& a, f32& b, f32& c, f32& d)
{
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(from));
}

// sum += a * b for a of 16 x 8 (16 bits: 16 x 16) and b of 8 x 8 (16 x 8) elements, dealt to the lanes as PTX says.
TK_FN void multiply_add(f32* sum, const u32* a, const u32* b, f16)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    TK_UNROLL
    for (int i = 0; i < 2; ++i)  // the two halves of k
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
}
TK_FN void multiply_add(f32* sum, const u32* a, const u32* b, bf16)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The operands' 13 lowest bits are ignored.
TK_FN void multiply_add(f32* sum, const u32* a, const u32* b, f32)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
TK_FN void multiply_add(f64* sum, const f64* a, const f64* b, f64)
{
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
    TK_UNROLL
    for (int i = 0; i < 4; ++i)  // the two halves of the rows, for each half of k
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
            : "+d"(sum[i % 2 * 2]), "+d"(sum[i % 2 * 2 + 1]) : "d"(a[i]), "d"(b[i / 2]));
#endif
}

// Adds to 16 bytes of an array, each element atomically: from sm_90 on.
#define TK_ADD_WORDS(T, form) \
    TK_FN void add_words(T* to, const u32 (&v)[4]) \
    { \
        asm volatile("red.global.add." form " [%0], {%1, %2, %3, %4};" \
                     ::"l"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory"); \
    }
TK_ADD_WORDS(f32, "v4.f32")
TK_ADD_WORDS(f16, "noftz.v4.f16x2")
TK_ADD_WORDS(bf16, "noftz.v4.bf16x2")
#undef TK_ADD_WORDS

}  // namespace tk
#endif
#endif
