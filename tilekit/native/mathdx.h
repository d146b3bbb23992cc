// Products that cuBLASDx computes: the kernel is linked with a unit of device code for each, made for its sizes, dtypes
// and number of threads. How the unit deals the sums to the threads, and where it wants factors in shared memory, only
// its functions know; once linked they are folded into the code around them.
#ifndef TILEKIT_NATIVE_MATHDX_H
#define TILEKIT_NATIVE_MATHDX_H
#include "mma.h"

#ifdef TK_CUDA
namespace tk {

// A tensor as the functions of a unit take it.
struct UnitTensor { void* memory; };

// The layout of a unit's sums, of which the first M rows and N columns are the tile's (unit_memory.h).
template <class U, int M_, int N_> struct UnitLayout {
    static constexpr int M = M_, N = N_, registers = U::registers;
    static TK_METHOD int row(int i)
    {
        int row, col;
        U::where(i, row, col);
        return row;
    }
    static TK_METHOD int col(int i)
    {
        int row, col;
        U::where(i, row, col);
        return col;
    }
    // A thread may hold nothing, or more than there is.
    static TK_METHOD bool is_held(int i)
    {
        int row, col;
        U::where(i, row, col);
        return U::holds(i) && row < M && col < N;
    }
};

template <class U, class S, int K> struct UnitKind {
    typedef U Unit;
    typedef S Sum;
    static constexpr int k = K, terms = 1;
};
template <class U, class S, int K> constexpr bool is_unit_kind<UnitKind<U, S, K>> = true;

// A factor of X x K elements in shared memory where its unit wants them: A is the left one. 16 bytes of a row stay
// together, and rows have no gaps.
template <class T, int X_, int K_, class U, bool KMajor, bool A> struct UnitOperand {
    typedef T Element;
    static constexpr int X = X_, K = K_;
    static constexpr bool shared = true, k_major = KMajor;
    static constexpr int rows = KMajor ? X : K, cols = KMajor ? K : X;
    static constexpr int pitch = cols * (int)sizeof(T), bytes = (rows * pitch + 127) / 128 * 128;
    static_assert((A ? U::bytes_a : U::bytes_b) <= bytes && pitch % 16 == 0, "the unit wants more memory than planned");
    struct Place {  // only the unit knows how places differ
        static constexpr bool known = false;
        static constexpr int period = 1;
    };
    u32 memory;  // a multiple of 128
    static TK_METHOD int offset(int row, int col)
    {
        const int at = A ? U::place_a(KMajor ? row : col, KMajor ? col : row) : U::place_b(KMajor ? col : row, KMajor ? row : col);
        return at * (int)sizeof(T);
    }
    TK_METHOD void* tensor() const { return (void*)__cvta_shared_to_generic(memory); }
};
// A factor in shared memory that lies as its unit was told.
template <class T> struct UnitTile {
    const T* memory;
    TK_METHOD void* tensor() const { return (void*)memory; }
};

}  // namespace tk

// Declares a unit. NAME_registers, NAME_bytes_a and NAME_bytes_b are known once it is made.
#define TK_GEMM_UNIT(NAME)                                                                              \
    extern "C" {                                                                                        \
    __device__ void NAME##_execute(tk::UnitTensor, tk::UnitTensor, tk::UnitTensor);                     \
    __device__ void NAME##_where(int*, int*, int*);                                                     \
    __device__ void NAME##_active(void*);                                                               \
    __device__ void NAME##_inside(int*, void*);                                                         \
    __device__ void NAME##_place_a(tk::UnitTensor, int*, int*, int*, void*);                            \
    __device__ void NAME##_place_b(tk::UnitTensor, int*, int*, int*, void*);                            \
    }                                                                                                   \
    struct NAME {                                                                                       \
        static constexpr int registers = NAME##_registers;                                              \
        static constexpr int bytes_a = NAME##_bytes_a, bytes_b = NAME##_bytes_b;                        \
        static TK_METHOD void execute(void* a, void* b, void* sums) { NAME##_execute({a}, {b}, {sums}); } \
        static TK_METHOD void where(int i, int& row, int& col) { NAME##_where(&i, &row, &col); }        \
        static TK_METHOD bool holds(int i)                                                              \
        {                                                                                               \
            int active, inside;                                                                         \
            NAME##_active(&active);                                                                     \
            NAME##_inside(&i, &inside);                                                                 \
            return active && inside;                                                                    \
        }                                                                                               \
        static TK_METHOD int place_a(int row, int col)                                                  \
        {                                                                                               \
            int at;                                                                                     \
            void* element;                                                                              \
            NAME##_place_a({nullptr}, &row, &col, &at, &element);                                       \
            return at;                                                                                  \
        }                                                                                               \
        static TK_METHOD int place_b(int row, int col)                                                  \
        {                                                                                               \
            int at;                                                                                     \
            void* element;                                                                              \
            NAME##_place_b({nullptr}, &row, &col, &at, &element);                                       \
            return at;                                                                                  \
        }                                                                                               \
    };
#endif
#endif
