"""A stand-in for the wheel of cuBLASDx's headers: what a unit uses of them, over plain loops, with the same traps."""

from __future__ import annotations

from pathlib import Path

from tilekit.runtime.mathdx.headers import NUMBERS, TUPLES

TUPLE = """#pragma once
namespace std {{
template <class T> struct tuple_size;  // as NVRTC's headers have them
template <unsigned long I, class T> struct tuple_element;
#if defined(__CUDACC_RTC__)
template <class... _Tp>
struct tuple_size;

template <size_t _Ip, class... _Tp>
struct tuple_element;
#endif
}}
namespace {name} {{ constexpr int was_read = 1; }}
"""
SEQUENCE = """#pragma once
#define CUTE_HOST_DEVICE
namespace cuda::std {
template <class T, T... Ints> struct integer_sequence {};
template <int I, class T, T... Ints> constexpr int get(integer_sequence<T, Ints...>) { return -1; }
}
namespace cute {
using cuda::std::integer_sequence;
using size_t = int;
template <size_t I, class S> using tuple_element_t = int;
template <size_t I, class T, T... Ints>
CUTE_HOST_DEVICE constexpr
tuple_element_t<I, integer_sequence<T, Ints...>>
get(integer_sequence<T, Ints...>) {
  return {};
}
constexpr int first = get<0>(integer_sequence<int, 3, 4>{});
}
"""
REAL = """#pragma once
#define CUTE_HOST_DEVICE
namespace cute {
template <class D, class A, class B, class C>
CUTE_HOST_DEVICE constexpr void fma(D& d, A const& a, B const& b, C const& c)
{
  d = a * b + c;
}

} // end namespace cute
"""
VERSION = """#define CUBLASDX_VERSION_MAJOR 0
#define CUBLASDX_VERSION_MINOR 4
#define CUBLASDX_VERSION_PATCH 7
"""
MAIN = """#pragma once
#ifndef NDEBUG
#error "checks are on"
#endif
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cuda_runtime_api.h>
{includes}
#define CUTE_UNROLL _Pragma("unroll")
namespace cute {{
template <class T> T&& declval();
template <int N> struct Int {{ static constexpr int value = N; }};
struct At {{ int row, col; }};
template <int I> constexpr int get(At at) {{ return I ? at.col : at.row; }}
template <class T> constexpr Int<T::registers> size(const T&);
}}
namespace cublasdx {{
struct tfloat32_t {{ unsigned bits; }};
inline float as_number(__half x) {{ return __half2float(x); }}
inline float as_number(__nv_bfloat16 x) {{ return __bfloat162float(x); }}
inline float as_number(tfloat32_t x) {{ return __uint_as_float(x.bits & 0xffffe000u); }}
inline float as_number(float x) {{ return x; }}
inline double as_number(double x) {{ return x; }}
enum class type {{ real }};
enum class function {{ MM }};
struct row_major {{ static constexpr bool row = true; }};
struct col_major {{ static constexpr bool row = false; }};
template <int, int, int> struct Size {{}};
template <int, int, int> struct LeadingDimension {{}};
template <int, int, int> struct Alignment {{}};
template <class, class, class> struct Precision {{}};
template <class, class, class> struct Arrangement {{}};
template <type> struct Type {{}};
template <function> struct Function {{}};
template <int> struct SM {{}};
template <int> struct BlockDim {{}};
namespace experimental {{ struct StaticBlockDim {{}}; }}
struct Block {{}};
template <int Rows, int Cols, bool Row, int Length> struct Layout {{
    static constexpr int length = Length ? Length : Row ? Cols : Rows;
    struct Map {{
        constexpr int operator()(int i, int j) const {{ return Row ? i * length + j : j * length + i; }}
    }} layout;
}};
template <int Rows, int Cols, bool Row, int Length> constexpr int cosize(Layout<Rows, Cols, Row, Length> of)
{{
    return of.layout(Rows - 1, Cols - 1) + 1;
}}
template <class T, class L> struct Tensor {{
    T* memory;
    L place;
    auto operator()(int i, int j) const {{ return as_number(memory[place.layout(i, j)]); }}
}};
template <class T, class L> Tensor<T, L> make_tensor(T* memory, L place) {{ return {{memory, place}}; }}
template <class S, int M, int N, int Threads> struct Partition {{
    struct Sums {{
        static constexpr int registers = (M * N + Threads - 1) / Threads;
        S held[registers];
        S& operator()(int i) {{ return held[i]; }}
    }};
    unsigned element(int i) const
    {{
        __builtin_assume(threadIdx.x < Threads);
        return (unsigned)i * Threads + threadIdx.x;
    }}
    Sums make_accumulator_fragment() const {{ return {{}}; }}
    cute::At map_fragment_index(int i) const {{ return {{(int)(element(i) / N), (int)(element(i) % N)}}; }}
    bool is_thread_active() const {{ return true; }}
    bool is_index_in_bounds(int i) const {{ return element(i) < M * N; }}
}};
template <class F, class S, int M, int N, int K, class A, class B, int Threads, int Lda = 0, int Ldb = 0> struct Gemm {{
    static constexpr auto get_layout_smem_a() {{ return Layout<M, K, A::row, Lda>(); }}
    static constexpr auto get_layout_smem_b() {{ return Layout<K, N, B::row, Ldb>(); }}
    static constexpr auto suggest_layout_smem_a() {{ return get_layout_smem_a(); }}
    static constexpr auto suggest_layout_smem_b() {{ return get_layout_smem_b(); }}
    static auto get_partitioner() {{ return Partition<S, M, N, Threads>(); }}
    static auto suggest_partitioner() {{ return get_partitioner(); }}
    template <class X, class Y, class Sums> void execute(X a, Y b, Sums& sums) const
    {{
        const auto dealt = get_partitioner();
        #pragma unroll 1
        for (int k = 0; k < K; ++k)
            CUTE_UNROLL
            for (int i = 0; i < Sums::registers; ++i) {{
                const auto at = dealt.map_fragment_index(i);
                if (dealt.is_index_in_bounds(i)) cute::fma(sums(i), a(at.row, k), b(k, at.col), sums(i));
            }}
    }}
}};
template <class... Given> struct Described {{}};
template <class... Given, class More> Described<Given..., More> operator+(Described<Given...>, More);
template <int M, int N, int K, class More> Described<Size<M, N, K>, More> operator+(Size<M, N, K>, More);
#define FIRST                                                                                                    \\
    Size<M, N, K>, Precision<F, F, S>, Type<type::real>, Function<function::MM>, Arrangement<A, B, row_major>,    \\
        Alignment<U, V, 16>, SM<Arch>, BlockDim<Threads>, experimental::StaticBlockDim
template <class F, class S, int M, int N, int K, class A, class B, int U, int V, int Arch, int Threads>
Gemm<F, S, M, N, K, A, B, Threads> operator+(Described<FIRST>, Block);
template <class F, class S, int M, int N, int K, class A, class B, int U, int V, int Arch, int Threads, int Lda,
    int Ldb>
Gemm<F, S, M, N, K, A, B, Threads, Lda, Ldb> operator+(Described<FIRST, LeadingDimension<Lda, Ldb, N>>, Block);
}}
"""


def write_headers(site: Path, version: str = "25.6.0") -> Path:
    """A folder for ``sys.path`` in which the package of the headers is installed; the folder of its headers."""
    root = site / "nvidia/mathdx"
    names = {name: f"cute_{number}" for number, name in enumerate(TUPLES)}
    files = {
        "include/cublasdx.hpp": MAIN.format(includes="\n".join(f"#include <{name}>" for name in (*TUPLES, NUMBERS))),
        f"external/cutlass/include/{NUMBERS}": REAL,
        "include/cublasdx/cublasdx_version.hpp": VERSION,
    }
    for name, space in names.items():
        text = SEQUENCE if name.endswith("integer_sequence.hpp") else TUPLE.format(name=space)
        files[f"external/cutlass/include/{name}"] = text
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info = site / f"nvidia_mathdx-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: nvidia-mathdx\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"nvidia/mathdx/{name},,\n" for name in files))
    return root
