// Brings one factor of a product from an array into shared memory, block by block along k, by asynchronous copies.
#ifndef TILEKIT_NATIVE_FEED_H
#define TILEKIT_NATIVE_FEED_H
#include "operand.h"
#include "pack.h"
#include "plane.h"

#ifdef TK_CUDA
namespace tk {

// One thread's part of the copies of an operand Op, of which X elements across the sum and K along it are the product's;
// the others, and what lies outside the array, become zero. Rows of the operand run along the array's axis ColAxis.
// Packed says of the array: its elements lie side by side along that axis, its address and other strides are multiples
// of 16 bytes, and so is the offset along that axis, in every step. Then 16 bytes are copied at once, else elements.
// Round says that f32 elements are rounded to tf32 once they are there.
template <class Op, int X, int K, int Threads, bool Packed, bool Round = false> struct Feed {
    typedef typename Op::Element T;
    static constexpr int unit = Packed ? 16 / (int)sizeof(T) : 1, per_row = Op::cols / unit, units = Op::rows * per_row;
    static constexpr int rounds = (units + Threads - 1) / Threads;
    // Every unit of a thread is in one column, a fixed number of rows below the last.
    static constexpr bool regular = Threads % per_row == 0;
    static constexpr int below = regular ? Threads / per_row : 0;
    // Whether a step may be copied without a look at each unit: all of the operand is the product's, as it is.
    static constexpr bool uniform = Packed && regular && units % Threads == 0 && Op::X == X && Op::K == K;

    // The address of the window's element (0, 0) in the step that is copied next, or of the thread's first unit if
    // regular packs are copied; it may wrap on the way.
    u64 from;
    i64 row_step, col_step, advance;
    i64 k, k_extent, k_step;  // where along k the first step begins, where the array ends, how far steps are apart
    Range across;

    // The window starts at `offset` in the array and moves `step` elements along k with each step.
    template <int RowAxis, int ColAxis, class A, int ND>
    static TK_METHOD Feed over(const Array<A, ND>& a, const i64 (&offset)[ND], i64 step)
    {
        constexpr int axis = Op::k_major ? ColAxis : RowAxis;
        const Plane p = plane<Op::k_major ? X : K, Op::k_major ? K : X, RowAxis, ColAxis>(a, offset);
        Feed f;
        f.from = p.base;
        f.row_step = p.row_step;
        f.col_step = p.col_step;
        f.k = offset[axis];
        f.k_extent = a.shape[axis];
        f.k_step = step;
        f.advance = (i64)((u64)step * (u64)a.stride[axis]);
        f.across = Op::k_major ? p.rows : p.cols;
        bool ok = true;  // of the axes that have one index
        TK_UNROLL
        for (int x = 0; x < ND; ++x)
            ok = ok && (x == RowAxis || x == ColAxis || (u64)offset[x] < (u64)a.shape[x]);
        if (!ok) f.k_extent = 0;
        return f;
    }

    TK_METHOD void begin(int rank)
    {
        if constexpr (Packed && regular)
            from += (u64)row_of(rank, 0) * (u64)row_step + (u64)(col_of(rank, 0) * (int)sizeof(T));
    }
    // Of `count` steps, how many from the first on are whole: they lie inside the array.
    TK_METHOD i64 whole_steps(i64 count) const
    {
        const i64 last = k_extent - K - k;
        if (!uniform || !is_whole(across, X) || k < 0 || last < 0 || k_step <= 0) return 0;
        const i64 found = last / k_step + 1;
        return found < count ? found : count;
    }
    // Starts the copies of step number `step`, the one after the last copied, to an operand at `memory`; of its K elements
    // along k, `left` are to be summed.
    TK_METHOD void copy(int rank, u32 memory, int step, i64 left)
    {
        Range along = inside(k + step * k_step, k_extent, K);
        if (left < (i64)along.hi) along.hi = (int)left;
        const Range rows = Op::k_major ? across : along, cols = Op::k_major ? along : across;
        if constexpr (Packed) copy_packs(rank, memory, rows, cols);
        else copy_elements(rank, memory, rows, cols);
        from += (u64)advance;
    }
    // The same of a whole step of which all is to be summed.
    TK_METHOD void copy_whole(int rank, u32 memory)
    {
        u64 at = from;
        TK_UNROLL
        for (int i = 0; i < rounds; ++i) {
            copy_async_whole(memory + place(rank, i), at);
            at += (u64)((i64)below * row_step);
        }
        from += (u64)advance;
    }
    // Rounds what this thread has copied to an operand; its copies have arrived, those of others need not have.
    TK_METHOD void round(int rank, u32 memory) const
    {
        if constexpr (Round) {
            TK_UNROLL_BY((Packed ? rounds : 4))
            for (int i = 0; i < rounds; ++i) {
                if (units % Threads && i * Threads + rank >= units) break;
                const u32 at = memory + place(rank, i);
                f32 x[unit];
                if constexpr (Packed) read_shared(at, x[0], x[1], x[2], x[3]);
                else x[0] = read_shared(at, f32());
                u32 y[unit];
                TK_UNROLL
                for (int j = 0; j < unit; ++j) y[j] = round_tf32(bit_cast<u32>(x[j]));
                if constexpr (Packed) write_shared(at, y[0], y[1], y[2], y[3]);
                else write_shared(at, y[0]);
            }
        }
    }

private:
    static TK_METHOD int row_of(int rank, int i)
    {
        return regular ? rank / per_row + i * below : (rank + i * Threads) / per_row;
    }
    static TK_METHOD int col_of(int rank, int i)
    {
        return (regular ? rank : rank + i * Threads) % per_row * unit;
    }
    TK_METHOD void copy_packs(int rank, u32 memory, const Range& rows, const Range& cols) const
    {
        u64 at = from;
        // Addresses of irregular units differ in each round; the compiler keeps those of all that are written out.
        TK_UNROLL_BY((regular || rounds <= 8 ? rounds : 4))
        for (int i = 0; i < rounds; ++i) {
            if (units % Threads && i * Threads + rank >= units) break;
            const int row = row_of(rank, i), col = col_of(rank, i), more = cols.hi - col;
            const int count = more < 0 || col < cols.lo || !is_inside(rows, row) ? 0 : more < unit ? more : unit;
            if constexpr (!regular) at = from + (u64)row * (u64)row_step + (u64)(col * (int)sizeof(T));
            copy_async<16>(memory + place(rank, i), at, count * (int)sizeof(T));
            at += (u64)((i64)below * row_step);
        }
    }
    // Where a thread's unit number i goes; how far that is from its first one, all threads may have in common.
    static TK_METHOD u32 place(int rank, int i)
    {
        typedef typename Op::Place P;
        if constexpr (regular && P::known && (below % P::period == 0 || (below & (below - 1)) == 0))
            return ((u32)Op::offset(row_of(rank, 0), col_of(rank, 0)) ^ (u32)P::turn(i * below, 0)) + (u32)P::further(i * below, 0);
        else return (u32)Op::offset(row_of(rank, i), col_of(rank, i));
    }
    TK_METHOD void copy_elements(int rank, u32 memory, const Range& rows, const Range& cols) const
    {
        TK_UNROLL_BY(4)
        for (int i = 0; i < rounds; ++i) {
            const int e = rank + i * Threads, row = e / per_row, col = e % per_row;
            if (units % Threads && e >= units) break;
            const bool ok = is_inside(rows, row) && is_inside(cols, col);
            const u64 at = from + (u64)row * (u64)row_step + (u64)col * (u64)col_step;
            const u32 to = memory + (u32)Op::offset(row, col);
            if constexpr (sizeof(T) == 2) write_shared(to, ok ? *global_pointer<const u16>(at) : (u16)0);
            else copy_async<(int)sizeof(T)>(to, at, ok ? (int)sizeof(T) : 0);
        }
    }
};

}  // namespace tk
#endif
#endif
