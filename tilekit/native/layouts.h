// Which elements of a product's tile a thread holds in which registers.
//
// A layout L of a tile of M x N elements says: register i of the thread of rank r holds element (L::row(r, i),
// L::col(r, i)); those at or beyond M or N are of no tile and hold anything.
#ifndef TILEKIT_NATIVE_LAYOUTS_H
#define TILEKIT_NATIVE_LAYOUTS_H
#include "base.h"

namespace tk {

TK_FN constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Tensor-core products: each of WarpsM x WarpsN warps holds a rectangle of 16 x 8 atoms, of which a lane has two
// neighbours in row lane / 4 and two in the row 8 below.
template <int M_, int N_, int WarpsM_, int WarpsN_> struct MmaLayout {
    static constexpr int M = M_, N = N_, WarpsM = WarpsM_, WarpsN = WarpsN_, threads = 32 * WarpsM * WarpsN;
    static constexpr int atoms_m = ceil_div(M, 16 * WarpsM), atoms_n = ceil_div(N, 8 * WarpsN);
    static constexpr int rows = 16 * atoms_m * WarpsM, cols = 8 * atoms_n * WarpsN;
    static constexpr int registers = 4 * atoms_m * atoms_n;
    // Registers that hold neighbours of a row, and of a column; distinct rows and columns of a thread; lanes of one row.
    static constexpr int run = 2, down_run = 1, thread_rows = 2 * atoms_m, thread_cols = 2 * atoms_n, row_lanes = 4;
    static TK_METHOD int first_row(int rank) { return rank / 32 % WarpsM * (16 * atoms_m); }
    static TK_METHOD int first_col(int rank) { return rank / 32 / WarpsM * (8 * atoms_n); }
    static TK_METHOD constexpr int number(int r, int c)
    {
        return (r / 2 * atoms_n + c / 2) * 4 + r % 2 * 2 + c % 2;
    }
    static TK_METHOD int row(int rank, int i)
    {
        return first_row(rank) + rank % 32 / 4 + (i / 4 / atoms_n * 16 + i / 2 % 2 * 8);
    }
    static TK_METHOD int col(int rank, int i)
    {
        return first_col(rank) + rank % 4 * 2 + (i / 4 % atoms_n * 8 + i % 2);
    }
};

// Products by multiply-adds: each thread of a warp, as LanesM x 32 / LanesM lanes, holds TM x TN elements, groups of 4 x 4
// neighbours.
template <int M_, int N_, int WarpsM_, int WarpsN_, int TM_, int TN_, int LanesM_> struct FmaLayout {
    static constexpr int M = M_, N = N_, WarpsM = WarpsM_, WarpsN = WarpsN_, threads = 32 * WarpsM * WarpsN;
    static constexpr int TM = TM_, TN = TN_, LanesM = LanesM_, LanesN = 32 / LanesM;
    static constexpr int rows = WarpsM * LanesM * TM, cols = WarpsN * LanesN * TN, registers = TM * TN;
    static_assert(TM % 4 == 0 && TN % 4 == 0 && rows >= M && cols >= N, "threads must hold groups that cover the tile");
    static constexpr int run = 4, down_run = 4, thread_rows = TM, thread_cols = TN, row_lanes = LanesN;
    static TK_METHOD int first_row(int rank)
    {
        return rank / 32 % WarpsM * (LanesM * TM) + rank % 32 / LanesN * 4;
    }
    static TK_METHOD int first_col(int rank)
    {
        return rank / 32 / WarpsM * (LanesN * TN) + rank % LanesN * 4;
    }
    // How far the thread's value number i along an axis is from its first.
    static TK_METHOD constexpr int down(int i) { return i / 4 * (4 * LanesM) + i % 4; }
    static TK_METHOD constexpr int right(int i) { return i / 4 * (4 * LanesN) + i % 4; }
    static TK_METHOD constexpr int number(int r, int c) { return r * TN + c; }
    static TK_METHOD int row(int rank, int i) { return first_row(rank) + down(i / TN); }
    static TK_METHOD int col(int rank, int i) { return first_col(rank) + right(i % TN); }
};

// Whether only a unit of mathdx.h knows which elements a thread holds.
template <class L> constexpr bool is_unit_layout = false;

// Whether a register holds an element of the tile; known to the compiler where the layout has no more than the tile.
template <class L> TK_FN bool is_held(int rank, int i)
{
    if constexpr (is_unit_layout<L>) return L::held(i);
    else return (L::rows == L::M || L::row(rank, i) < L::M) && (L::cols == L::N || L::col(rank, i) < L::N);
}

}  // namespace tk
#endif
