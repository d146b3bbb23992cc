"""Stand-ins for MathDx: a library with its C interface that writes down what it is asked, a wheel that holds it, and
units that do what cuBLASDx's do, compiled by NVRTC from plain loops. Tests need nothing proprietary."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from tilekit.codegen.gemm.units import Unit
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.mathdx import providers, units, worker
from tilekit.runtime.mathdx.made import Made
from tilekit.runtime.toolchain import Toolchain

COMMON = """
/* constants = 99; in comments are none */
typedef enum commondxPrecision_t { COMMONDX_PRECISION_F16 = 103, COMMONDX_PRECISION_F32 = 105,
    COMMONDX_PRECISION_F64 = 106, } commondxPrecision;
typedef enum commondxExecution_t { COMMONDX_EXECUTION_BLOCK = 101, } commondxExecution;
typedef enum commondxArchModifier_t { COMMONDX_ARCH_MODIFIER_GENERIC = 0, } commondxArchModifier;
typedef enum commondxOption_t { COMMONDX_OPTION_TARGET_SM = 11, COMMONDX_OPTION_EXTRA_NVRTC_ARGS = 14, } commondxOption;
"""
CUBLASDX = """
typedef enum a_t { CUBLASDX_FUNCTION_MM = 200, } a;
typedef enum b_t { CUBLASDX_API_TENSORS = 202, } b;
typedef enum c_t { CUBLASDX_TYPE_REAL = 203, } c;
typedef enum d_t { CUBLASDX_ARRANGEMENT_COL_MAJOR = 204, CUBLASDX_ARRANGEMENT_ROW_MAJOR = 205, } d;
typedef enum e_t { CUBLASDX_OPERATOR_FUNCTION = 1, CUBLASDX_OPERATOR_EXECUTION = 2, CUBLASDX_OPERATOR_API = 3,
    CUBLASDX_OPERATOR_TYPE = 4, CUBLASDX_OPERATOR_PRECISION = 5, CUBLASDX_OPERATOR_SM = 6, CUBLASDX_OPERATOR_SIZE = 7,
    CUBLASDX_OPERATOR_BLOCK_DIM = 8, CUBLASDX_OPERATOR_STATIC_BLOCK_DIM = 9, CUBLASDX_OPERATOR_ARRANGEMENT = 10,
    CUBLASDX_OPERATOR_ALIGNMENT = 11, CUBLASDX_OPERATOR_LEADING_DIMENSION = 12, } e;
typedef enum f_t { CUBLASDX_TENSOR_SMEM_A = 20, CUBLASDX_TENSOR_SMEM_B = 21, CUBLASDX_TENSOR_RMEM_C = 22,
    CUBLASDX_TENSOR_SUGGESTED_SMEM_A = 23, CUBLASDX_TENSOR_SUGGESTED_SMEM_B = 24,
    CUBLASDX_TENSOR_SUGGESTED_RMEM_C = 25, } f;
typedef enum g_t { CUBLASDX_TENSOR_TRAIT_STORAGE_BYTES = 30, } g;
typedef enum h_t { CUBLASDX_DEVICE_FUNCTION_EXECUTE = 40, CUBLASDX_DEVICE_FUNCTION_MAP_IDX2CRD_PARTITIONER = 41,
    CUBLASDX_DEVICE_FUNCTION_IS_THREAD_ACTIVE = 42, CUBLASDX_DEVICE_FUNCTION_IS_INDEX_IN_BOUNDS = 43,
    CUBLASDX_DEVICE_FUNCTION_MAP_CRD2IDX = 44, } h;
typedef enum i_t { CUBLASDX_DEVICE_FUNCTION_OPTION_SYMBOL_NAME = 50, } i;
"""
LIBRARY = r"""
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef long long L;
static char said[20000];
static L handles = 1000;
static void say(const char* format, ...)
{
    va_list list;
    va_start(list, format);
    size_t used = strlen(said);
    vsnprintf(said + used, sizeof(said) - used, format, list);
    va_end(list);
}
static void many(size_t count, const L* values)
{
    for (size_t i = 0; i < count; ++i) say(" %lld", values[i]);
    say("\n");
}
static int status(const char* name)
{
    const char* fails = getenv("STAND_IN_FAILS");
    return fails && !strcmp(fails, name) ? 3 : 0;
}
const char* commondxStatusToStr(int s) { return s == 3 ? "COMMONDX_COMPILATION_ERROR" : "?"; }
int commondxGetLastErrorStrSize(size_t* size) { *size = 20; return 0; }
int commondxGetLastErrorStr(int* code, size_t size, char* text) { snprintf(text, size, "no such product"); return 0; }
int mathdxGetVersionEx(int* a, int* b, int* c) { *a = 0, *b = 4, *c = 2; return 0; }
int cublasdxGetVersion(int* a, int* b, int* c) { *a = 0, *b = 8, *c = 0; return 0; }
int cublasdxCreateDescriptor(L* h) { *h = ++handles; return status("descriptor"); }
int cublasdxSetOperatorInt64(L h, int op, L value) { say("op %d", op); many(1, &value); return 0; }
int cublasdxSetOperatorInt64s(L h, int op, size_t n, const L* values) { say("op %d", op); many(n, values); return 0; }
int cublasdxCreateTensor(L h, int type, L* tensor) { *tensor = type; return 0; }
int cublasdxFinalizeTensors(size_t n, const L* tensors) { say("tensors"); many(n, tensors); return 0; }
int cublasdxGetTensorTraitInt64(L tensor, int trait, L* value) { *value = trait == 30 ? tensor * 64 : -1; return 0; }
int cublasdxCreateDeviceFunction(L h, int what, size_t n, const L* tensors, L* made)
{
    say("function %d", what);
    many(n, tensors);
    *made = ++handles;
    return 0;
}
int cublasdxSetDeviceFunctionOptionStr(L f, int option, const char* s) { say("named %d %s\n", option, s); return 0; }
int commondxCreateCode(L* code) { *code = ++handles; return 0; }
int commondxSetCodeOptionInt64s(L c, int option, size_t n, L* v) { say("code %d", option); many(n, v); return 0; }
int commondxSetCodeOptionStrs(L c, int option, size_t n, const char** s) { say("code %d %s\n", option, *s); return 0; }
int cublasdxFinalizeDeviceFunctions(L code, size_t n, const L* functions)
{
    say("made %d\n", (int)n);
    return status("code");
}
int commondxGetCodeLTOIRSize(L code, size_t* size) { *size = strlen(said); return 0; }
int commondxGetCodeLTOIR(L code, size_t size, void* out) { memcpy(out, said, size); return 0; }
"""


def write_wheel(site: Path, toolchain: Toolchain, version: str = "0.4.2") -> None:
    """A folder for ``sys.path`` in which the package of libmathdx is installed."""
    files = {
        "nvidia/cu13/include/libmathdx.h": "",
        "nvidia/cu13/include/libcommondx.h": COMMON,
        "nvidia/cu13/include/libcublasdx.h": CUBLASDX,
        "nvidia/cu13/lib/libmathdx.so.0": None,
    }
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text)
        else:
            source = path.with_name("library.c")
            source.write_text(LIBRARY)
            sanitizer = ["-fno-sanitize=undefined"] if toolchain.family == "zig" else []
            flags = ["-x", "c", "-shared", "-fPIC", "-w", *sanitizer, str(source), "-o", str(path)]
            command = ["cc" if each == "c++" else each for each in toolchain.command]
            subprocess.run([*command, *flags], check=True)
    info = site / f"nvidia_libmathdx_cu13-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: nvidia-libmathdx-cu13\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))


LOADS = {
    "F16": (2, 'float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(((const unsigned short*)p)[i])); return x;'),
    "BF16": (2, "return __int_as_float((int)((const unsigned short*)p)[i] << 16);"),
    "TF32": (4, "return __int_as_float(((const int*)p)[i] & 0xffffe000);"),  # tensor cores cut bits off
    "F32": (4, "return ((const float*)p)[i];"),
    "F64": (8, "return ((const double*)p)[i];"),
}


def _places(unit: Unit, size: int) -> str:
    """Functions that say where each factor's element lies."""
    cols = (unit.k if unit.rows[0] else unit.m, unit.n if unit.rows[1] else unit.k)
    lead = [own or length for own, length in zip(unit.leading, cols, strict=True)]
    odd = ["row & 1" if unit.chooses_layout and length * size % 32 == 0 else "0" for length in cols]
    per = 16 // size
    pairs = zip(lead, odd, strict=True)
    at = [f"row * {step} + ((col / {per} ^ ({swap})) * {per} + col % {per})" for step, swap in pairs]
    order = ["int row = i, col = j;" if rows else "int row = j, col = i;" for rows in unit.rows]
    return "".join(
        f"""
__device__ __forceinline__ int at_{letter}(int i, int j) {{ {first} return {place}; }}
extern "C" __device__ void {unit.name}_place_{letter}(T t, int* i, int* j, int* at, void* p)
{{ *at = at_{letter}(*i, *j); *(char**)p = (char*)t.p + *at * {size}; }}"""
        for letter, first, place in zip("ab", order, at, strict=True)
    )


def unit_source(unit: Unit) -> str:
    """CUDA C++ with the functions of a unit. Where it may choose, pairs of 16 bytes are exchanged in odd rows."""
    size, load = LOADS[unit.precision]
    sums = "double" if unit.sums == "F64" else "float"
    each = -(-unit.m * unit.n // unit.threads)
    name = unit.name
    return f"""struct T {{ void* p; }};
__device__ __forceinline__ {sums} load(const void* p, int i) {{ {load} }}{_places(unit, size)}
__device__ __forceinline__ unsigned element(int x)
{{
    __builtin_assume(threadIdx.x < {unit.threads});  // else each sum's row would take a register
    return (unsigned)x * {unit.threads} + threadIdx.x;
}}
extern "C" __device__ void {name}_execute(T a, T b, T c)
{{
    #pragma unroll 1
    for (int k = 0; k < {unit.k}; ++k) {{
        #pragma unroll
        for (int x = 0; x < {each}; ++x) {{
            const unsigned e = element(x), m = e / {unit.n}, n = e % {unit.n};
            {sums}& sum = (({sums}*)c.p)[x];
            if (e < {unit.m * unit.n}) sum = fma(load(a.p, at_a(m, k)), load(b.p, at_b(k, n)), sum);
        }}
    }}
}}
extern "C" __device__ void {name}_where(int* x, int* row, int* col)
{{
    const unsigned e = element(*x);
    *row = e / {unit.n}, *col = e % {unit.n};
}}
extern "C" __device__ void {name}_active(void* yes) {{ *(int*)yes = threadIdx.x < {unit.threads}; }}
extern "C" __device__ void {name}_inside(int* x, void* yes)
{{
    *(int*)yes = element(*x) < {unit.m * unit.n};
}}
"""


def make_unit(unit: Unit) -> Made:
    """What a provider makes of a unit."""
    options = [f"--gpu-architecture=compute_{unit.arch}", "-std=c++17", "--fmad=false"]
    code = nvrtc.compile_for_linking(unit_source(unit), unit.name, {}, options)
    size, _ = LOADS[unit.precision]
    bytes_of = [rows * cols * size for rows, cols in ((unit.m, unit.k), (unit.k, unit.n))]
    return Made(code, -(-unit.m * unit.n // unit.threads), *bytes_of, "stand-in")


def write_unit(unit: Unit, folder: Path) -> None:
    """What a process that makes a unit leaves behind."""
    made = make_unit(unit)
    (folder / worker.CODE).write_bytes(made.code)
    (folder / worker.FACTS).write_text(json.dumps(made.facts))


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stand-in's units be those of an installed MathDx."""
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    found = providers.Found(providers.PROVIDERS[0], f"stand-in {digest}")

    monkeypatch.setattr(providers, "find", lambda: found)
    monkeypatch.setattr(units, "_work", lambda module, folder, made_by, unit: write_unit(unit, folder))
