"""The headers of cuBLASDx, from which NVRTC compiles a unit with the same functions as libmathdx makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from tilekit.codegen.gemm.units import Unit
from tilekit.errors import CompileError
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.mathdx.made import Made

PACKAGE = "nvidia-mathdx"
MAIN = "cublasdx.hpp"
TYPES = {
    "F16": "__half",
    "BF16": "__nv_bfloat16",
    "TF32": "cublasdx::tfloat32_t",
    "F32": "float",
    "F64": "double",
}
"""The C++ types of what cuBLASDx calls the dtypes."""
RENAMED = {110: 101}
"""Architectures that had another number when the headers were written."""
TUPLES = (
    "cute/container/array.hpp",
    "cute/container/type_list.hpp",
    "cute/container/tuple.hpp",
    "cute/container/array_subbyte.hpp",
    "cute/numeric/arithmetic_tuple.hpp",
    "cute/algorithm/tuple_algorithms.hpp",
    "cute/numeric/integer_sequence.hpp",
)
"""CUTLASS's headers that name templates of the standard library, otherwise than NVRTC 13.3 and later do."""
NUMBERS = "cute/numeric/real.hpp"
"""CUTLASS's header with the multiply-add of numbers, ``a * b + c``, which kernels are linked without contracting."""
FUSED = "".join(
    f"CUTE_HOST_DEVICE void fma({t}& d, {t} const& a, {t} const& b, {t} const& c) {{ d = {name}(a, b, c); }}\n"
    for t, name in (("float", "__fmaf_rn"), ("double", "__fma_rn"))
)
WITHOUT_CONTENT = ("cuda_runtime.h", "cuda_runtime_api.h")
"""Headers that NVRTC does not bring, and of which it knows all that is used."""
_VARIADIC = re.compile(r"class\.\.\. _Tp>(\s*struct tuple_(?:size|element);)")
_GET = re.compile(
    r"template <size_t I, class T, T\.\.\. Ints>\s*CUTE_HOST_DEVICE constexpr\s*"
    r"tuple_element_t<I, integer_sequence<T, Ints\.\.\.>>\s*get\(integer_sequence<T, Ints\.\.\.>\) \{.*?\n\}\n",
    re.DOTALL,
)
INTEGERS = ("int", "unsigned", "long", "unsigned long", "long long", "unsigned long long")


def compile_unit(unit: Unit, root: Path | None = None) -> Made:
    """Compile a unit.

    Args:
        unit: The unit.
        root: The folder with cuBLASDx's and CUTLASS's headers; the installed package's where it is left out.

    Raises:
        CompileError: NVRTC refused it, or there are no headers.
    """
    root = root or find_headers()
    include, cutlass = root / "include", root / "external/cutlass/include"
    with TemporaryDirectory(prefix="tilekit-") as folder:
        options = [
            f"-I{include}",
            f"-I{cutlass}",
            f"--use-bundled-headers={folder}",
            f"--gpu-architecture=compute_{unit.arch}",
            "--std=c++17",
            "--gen-opt-lto",  # half the size, and quicker to link
            "-default-device",  # the headers have functions that do not say where they run
            "-DNDEBUG",  # else checks stay in the code
        ]
        asked = f"&{unit.name}_facts<{unit.name}_registers, {unit.name}_bytes_a, {unit.name}_bytes_b>"
        code, (said,) = nvrtc.compile_with_names(unit_source(unit), unit.name, corrected(cutlass), options, [asked])
    registers, bytes_a, bytes_b = (int(number) for number in re.findall(r"Li(\d+)E", said))
    return Made(code, registers, bytes_a, bytes_b, f"cuBLASDx {version_of(include)}")


def find_headers() -> Path:
    """The folder ``mathdx`` of the installed package.

    Raises:
        CompileError: there is none.
    """
    try:
        found = distribution(PACKAGE)
        file = next(file for file in found.files or () if file.name == MAIN)
    except (PackageNotFoundError, StopIteration) as error:
        raise CompileError(f"{PACKAGE} has no {MAIN}: {error!r}") from error
    return Path(str(found.locate_file(file))).parents[1]


def version_of(include: Path) -> str:
    """Of cuBLASDx, as its headers say."""
    text = (include / "cublasdx/cublasdx_version.hpp").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define CUBLASDX_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)", text))


def corrected(cutlass: Path) -> Mapping[str, str]:
    """Headers, by the names under which they are included, that are read in the place of those that are installed.

    NVRTC's own headers declare what CUTLASS declares too, with other parameters; and have a ``get`` that is as good as
    CUTLASS's for sequences of integers, unless there is a better one for each type. And a product's multiply-adds are
    one instruction each, as all products' are.
    """
    found = dict.fromkeys(WITHOUT_CONTENT, "#pragma once\n")
    for name in TUPLES:
        text = _VARIADIC.sub(r"class _Tp>\1", (cutlass / name).read_text(encoding="utf-8"))
        found[name] = _GET.sub("".join(map(_get_of, INTEGERS)), text)
    text, end, rest = (cutlass / NUMBERS).read_text(encoding="utf-8").rpartition("} // end namespace cute")
    return found | {NUMBERS: f"{text}{FUSED}{end}{rest}"}


def _get_of(integer: str) -> str:
    sequence = f"integer_sequence<{integer}, Ints...>"
    return (
        f"template <size_t I, {integer}... Ints> CUTE_HOST_DEVICE constexpr tuple_element_t<I, {sequence}>\n"
        f"get({sequence}) {{ return {{}}; }}\n"
    )


def operators(unit: Unit) -> str:
    """What describes a unit to cuBLASDx."""
    factor, sums = TYPES[unit.precision], TYPES[unit.sums]
    orders = [f"cublasdx::{'row' if row else 'col'}_major" for row in (*unit.rows, True)]
    found = [
        f"Size<{unit.m}, {unit.n}, {unit.k}>",
        f"Precision<{factor}, {factor}, {sums}>",
        "Type<cublasdx::type::real>",
        "Function<cublasdx::function::MM>",
        f"Arrangement<{', '.join(orders)}>",
        f"Alignment<{unit.alignment[0]}, {unit.alignment[1]}, 16>",
        f"SM<{RENAMED.get(unit.arch, unit.arch) * 10}>",
        f"BlockDim<{unit.threads}>",
        "experimental::StaticBlockDim",
    ]
    if unit.leading_apart:
        found.append(f"LeadingDimension<{unit.leading[0]}, {unit.leading[1]}, {unit.n}>")
    return " + ".join(f"cublasdx::{each}()" for each in [*found, "Block"])  # which must come last


def unit_source(unit: Unit) -> str:
    """CUDA C++ with the functions of a unit, and its facts as parameters of a template's name."""
    name, how = unit.name, "suggest" if unit.chooses_layout else "get"
    return f"""#include <{MAIN}>
using Gemm = decltype({operators(unit)});
using Factor = {TYPES[unit.precision]};
using Sum = {TYPES[unit.sums]};
struct Tensor {{ void* memory; }};
__device__ __forceinline__ constexpr auto layout_a() {{ return Gemm::{how}_layout_smem_a(); }}
__device__ __forceinline__ constexpr auto layout_b() {{ return Gemm::{how}_layout_smem_b(); }}
__device__ __forceinline__ auto partition() {{ return Gemm::{how}_partitioner(); }}
using Sums = decltype(partition().make_accumulator_fragment());
constexpr int {name}_registers = decltype(cute::size(cute::declval<Sums>()))::value;
constexpr int {name}_bytes_a = (int)(cublasdx::cosize(layout_a()) * sizeof(Factor));
constexpr int {name}_bytes_b = (int)(cublasdx::cosize(layout_b()) * sizeof(Factor));
template <int Registers, int BytesA, int BytesB> __device__ int {name}_facts;
{_functions(name)}"""


def _functions(name: str) -> str:
    places = "".join(
        f"""
extern "C" __device__ void {name}_place_{letter}(Tensor tensor, int* row, int* col, int* at, void* element)
{{
    *at = (int)layout_{letter}().layout(*row, *col);
    *(Factor**)element = (Factor*)tensor.memory + *at;
}}"""
        for letter in "ab"
    )
    return f"""
extern "C" __device__ void {name}_execute(Tensor a, Tensor b, Tensor c)
{{
    Sum* const held = (Sum*)c.memory;
    Sums sums;
    CUTE_UNROLL
    for (int i = 0; i < {name}_registers; ++i) sums(i) = held[i];
    Gemm().execute(cublasdx::make_tensor((Factor*)a.memory, layout_a()),
        cublasdx::make_tensor((Factor*)b.memory, layout_b()), sums);
    CUTE_UNROLL
    for (int i = 0; i < {name}_registers; ++i) held[i] = sums(i);
}}
extern "C" __device__ void {name}_where(int* i, int* row, int* col)
{{
    const auto at = partition().map_fragment_index(*i);
    *row = (int)cute::get<0>(at), *col = (int)cute::get<1>(at);
}}
extern "C" __device__ void {name}_active(void* yes) {{ *(int*)yes = (bool)partition().is_thread_active(); }}
extern "C" __device__ void {name}_inside(int* i, void* yes) {{ *(int*)yes = partition().is_index_in_bounds(*i); }}
{places}
"""
