"""``tile_apply``: compiled for the CPU, interpreted and as IR, the same bits; and what each operand may be."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.atom_kernels import CASES
from tests.compiled import Library
from tests.cuda_library import CudaLibrary
from tests.native.mma_source import instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tests.passes.finite_differences import gradients, traced
from tilekit.errors import KernelIndexError, KernelNotImplementedError, KernelValueError
from tilekit.ir.interpret import interpret
from tilekit.passes.differentiate import differentiate
from tilekit.runtime.cuda import build, nvrtc


@tk.kernel
def affine_fma(A: tk.array2d[tk.float32], Out: tk.array2d[tk.float32]):
    r = tk.tile_empty(shape=(4, 1), dtype=tk.float32, storage="register")
    tk.tile_apply(tk.ptx["ld.global.f32"], r, A)
    tk.tile_apply(tk.ptx["fma.rn.f32"], r, r, tk.float32(2), tk.float32(1))
    tk.tile_apply(tk.ptx["st.global.f32"], Out, r)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.standard_normal(shape).astype(dtype)


class TestThePagesExample:
    @pytest.mark.parametrize("device", ["cpu", "interpret"])
    def test_it_gives_what_it_says(self, device: str) -> None:
        a, out = numbers(4, 1), np.zeros((4, 1), np.float32)
        tk.launch_tiled(affine_fma, dim=1, inputs=[a], outputs=[out], block_dim=1, device=device)
        exact = np.float32(2) * a.astype(np.float64) + 1
        np.testing.assert_array_equal(out, exact.astype(np.float32))

    def test_its_source_has_four_of_each_in_order(self) -> None:
        source = tk.compile(affine_fma, device="cuda", arch="90a", block_dim=1).source
        found = re.findall(r"\b(?:ld|st|fma|mul|add|mov)\.[a-z0-9.]+", source)
        assert found == ["ld.global.f32"] * 4 + ["fma.rn.f32"] * 4 + ["st.global.f32"] * 4
        assert source.count("0f40000000, 0f3F800000") == 4

    @needs_nvrtc
    @needs_nvdisasm
    @pytest.mark.parametrize("flags", [(), ("--use_fast_math",), ("--fmad=true", "--ftz=true"), ("--fmad=false",)])
    def test_no_flag_changes_its_machine_code(self, flags: tuple[str, ...]) -> None:
        found = tk.compile(affine_fma, device="cuda", arch="90a", block_dim=1)
        kept = [option for option in build.options_of(found.target, {}) if not option.startswith("--fmad")]
        code = instructions(nvrtc.compile_cubin(found.source, "affine_fma", build.headers(), (*kept, *flags)).code)
        ours = [name for name in code if name.startswith(("F", "LDG", "STG"))][:12]
        assert ours == ["LDG.E"] * 4 + ["FFMA"] * 4 + ["STG.E"] * 4

    def test_what_is_outside_is_an_error_at_launch(self) -> None:
        a, out = numbers(3, 1), np.zeros((4, 1), np.float32)
        for device in ("cpu", "interpret"):
            with pytest.raises(KernelIndexError, match=r"at index 3 of axis 0 of A, which has extent 3"):
                tk.launch_tiled(affine_fma, dim=1, inputs=[a], outputs=[out], block_dim=1, device=device)


@pytest.fixture(scope="module")
def compiled() -> Library:
    return Library([traced(case.kernel, case.arguments) for case in CASES])


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: str(CASES[number]))
def test_every_kernel_gives_what_is_expected(compiled: Library, number: int) -> None:
    case = CASES[number]
    by_compiler, by_numpy, stepped = ({n: a.copy() for n, a in case.arguments.items()} for _ in range(3))
    compiled.run(number, by_compiler)
    interpret(traced(case.kernel, case.arguments), by_numpy)
    tk.launch_tiled(case.kernel, dim=1, inputs=list(stepped.values()), device="interpret")
    for found in (by_compiler, by_numpy, stepped):
        outputs = list(found.values())[len(case.inputs) :]
        for got, want in zip(outputs, case.expected(*case.inputs, *case.outputs), strict=True):
            np.testing.assert_array_equal(got, want.astype(got.dtype))


@needs_nvrtc
@pytest.mark.parametrize("threads", [1, 128])
def test_every_kernel_compiles_for_gpus(threads: int) -> None:
    traces = [traced(case.kernel, case.arguments) for case in CASES]
    library = CudaLibrary(traces, "75", block_dim=threads, quick=True)
    assert [target.block_dim for target in library.targets] == [threads] * len(CASES)
    assert len(library.cubins) == len(CASES)


def test_one_thread_spells_out_repeats_row_by_row() -> None:
    @tk.kernel
    def rows(A: tk.array2d[tk.float32]):
        r = tk.tile_empty((2, 3))
        tk.tile_apply("ld.global.f32", r, A)
        tk.tile_apply("st.global.f32", A, r, scope="thread")

    source = tk.compile(rows, device="cuda", arch="80", block_dim=1).source
    places = re.findall(r"ld\.global.*tk::element\(p\.A_, at\d+\[0\]( \+ \d)?, at\d+\[1\]( \+ \d)?\)", source)
    assert places == [(row, column) for row in ("", " + 1") for column in ("", " + 1", " + 2")]
    assert source.count("st.global.f32") == 6
    assert "for (" not in source[source.index("run_block") : source.index("return true")]


@pytest.mark.parametrize(("size", "written"), [(256, 256), (257, 1)])
def test_one_thread_loops_over_many_repeats(size: int, written: int) -> None:
    """Compilers take minutes for thousands of instructions."""

    @tk.kernel
    def many(A: tk.array1d[tk.float32]):
        r = tk.tile_empty(size)
        tk.tile_apply("ld.global.f32", r, A)
        for _ in tk.static_range(4):
            tk.tile_apply("fma.rn.f32", r, r, 2.0, 1.0, scope="thread")
        tk.tile_apply("st.global.f32", A, r)

    source = tk.compile(many, block_dim=1).source
    assert source.count("ld.global.f32") == written
    assert source.count("fma.rn.f32") == 3 * written + 1
    assert source.count("st.global.f32") == 1


def test_threads_hold_the_repeats_that_their_registers_do() -> None:
    source = tk.compile(affine_fma, device="cuda", arch="80", block_dim=64).source
    assert "tk::f32 r0[1];" in source
    assert [source.count(name) for name in ("ld.global.f32", "fma.rn.f32", "st.global.f32")] == [1, 1, 1]


def test_literals_are_their_bits() -> None:
    @tk.kernel
    def literals(A: tk.array1d[tk.float32], B: tk.array1d[tk.float64], C: tk.array1d[tk.uint32]):
        a, b, c = tk.tile_load(A, 1), tk.tile_load(B, 1), tk.tile_load(C, 1)
        tk.tile_apply("fma.rn.f32", a, a, 1e-45, tk.float32(float("nan")))
        tk.tile_apply("fma.rn.f64", b, b, 2.0**-53, -0.0)
        tk.tile_apply("fma.rn.f16x2", c, c, tk.pack2(1.0, 2.0, tk.float16), c)
        tk.tile_store(A, a)
        tk.tile_store(B, b)
        tk.tile_store(C, c)

    source = tk.compile(literals, device="cuda", arch="90a", block_dim=1).source
    assert "0f00000001, 0f7FC00000;" in source
    assert "0d3CA0000000000000, 0d8000000000000000;" in source
    assert f'"r"({0x40003C00}u)' in source


class TestPredicates:
    def test_an_undefined_destination_is_poisoned_in_checked_mode(self) -> None:
        @tk.kernel
        def undefined(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32], Bits: tk.array1d[tk.uint32]):
            r = tk.tile_load(A, 4)
            w = tk.tile_zeros(4, dtype=tk.uint32)
            tk.tile_apply("fma.rn.f32", r, r, 2.0, 1.0, pred=r > 0.0)
            tk.tile_apply("mov.b32", w, r, pred=r > 0.0)
            tk.tile_store(Out, r)
            tk.tile_store(Bits, w)

        a = np.array([-1, 2, -3, 4], np.float32)
        for device in ("cpu", "interpret"):
            out, bits = np.zeros(4, np.float32), np.zeros(4, np.uint32)
            with tk.config.scoped(checked=True):
                tk.launch_tiled(undefined, dim=1, inputs=[a], outputs=[out, bits], device=device)
            np.testing.assert_array_equal(out, np.where(a > 0, 2 * a + 1, np.nan).astype(np.float32))
            assert bits[::2].tolist() == [0xCDCDCDCD] * 2

    def test_what_is_kept_may_be_anything(self) -> None:
        """NaN payloads stay, and so does what was never written."""

        @tk.kernel
        def kept(A: tk.array1d[tk.uint32], Out: tk.array1d[tk.uint32], n: int):
            r = tk.tile_load(A, 4)
            x = tk.tile_bitcast(r, tk.float32)
            tk.tile_apply("fma.rn.f32", x, x, 2.0, 1.0, pred=tk.tile_arange(4, dtype=int) < n, preserve_dst=True)
            tk.tile_store(Out, r)
            y = tk.tile_empty(4)
            tk.tile_apply("mov.f32", y, x, pred=n > 0, preserve_dst=True)
            tk.tile_apply("st.global.b32", Out, y, pred=n > 0)

        a = np.array([0x3F800000, 0x7FC12345, 0xFF800001, 0x80000000], np.uint32)
        (found,) = self._kept(kept, a)
        assert found.tolist() == [0x40400000, *a[1:].tolist()]

    @staticmethod
    def _kept(kernel: Any, a: np.ndarray) -> list[np.ndarray]:
        results = []
        for device in ("cpu", "interpret"):
            out = np.zeros(4, np.uint32)
            tk.launch_tiled(kernel, dim=1, inputs=[a, out, 1], device=device)
            results.append(out)
        assert results[0].tolist() == results[1].tolist()
        return results[:1]

    @pytest.mark.parametrize("device", ["cpu", "interpret"])
    def test_what_no_repeat_accesses_may_lie_anywhere(self, device: str) -> None:
        @tk.kernel
        def moved(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32], start: int, some: bool):
            r = tk.tile_zeros(8)
            kept = tk.tile_map(lambda x: some and x == 0, tk.tile_arange(2, dtype=int))
            tk.tile_apply("ld.global.v4.f32", r, A, offset=start, pred=kept, preserve_dst=True)
            tk.tile_apply("st.global.v4.f32", Out, r, offset=start, pred=kept)

        a = np.zeros(12, np.float32)
        a = a[-(a.ctypes.data // 4) % 4 :][:8]
        for start in (-5, 1, 3, 4, 7, 100):
            out = np.full(8, 5, np.float32)
            tk.launch_tiled(moved, dim=1, inputs=[a, out, start, False], device=device)
            assert (out == 5).all()
        for start, error, text in ((3, KernelValueError, "must hold 4 neighbours"), (5, KernelIndexError, "index 8 ")):
            with pytest.raises(error, match=text):
                tk.launch_tiled(moved, dim=1, inputs=[a, np.zeros(8, np.float32), start, True], device=device)

    def test_memory_under_a_false_predicate_is_not_touched(self) -> None:
        @tk.kernel
        def nowhere(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32], go: bool):
            r = tk.tile_zeros(4)
            tk.tile_apply("ld.global.f32", r, A, offset=10**12, pred=go, preserve_dst=True)
            tk.tile_apply("st.global.f32", Out, r, offset=-(10**12), pred=go)
            tk.tile_apply("st.global.v2.f32", Out, r, offset=1, pred=go)

        @tk.kernel
        def wrapped(A: tk.array1d[tk.float32]):
            r, i = tk.tile_zeros(4), tk.tile_zeros(1, dtype=tk.uint64)
            tk.tile_apply("ld.global.f32", r, A, offset=i[0] - tk.uint64(1))

        for device in ("cpu", "interpret"):
            a = numbers(4)
            with pytest.raises(KernelIndexError, match="index 9223372036854775807 of axis 0 of A"):
                tk.launch_tiled(wrapped, dim=1, inputs=[a], device=device)
            tk.launch_tiled(nowhere, dim=1, inputs=[a, a, False], device=device)
            with pytest.raises(KernelIndexError, match=r"index 1000000000000 of axis 0 of A, which has extent 4"):
                tk.launch_tiled(nowhere, dim=1, inputs=[a, a, True], device=device)


class TestArchitectures:
    @pytest.mark.parametrize(
        ("spelling", "dtype", "arch", "wanted"),
        [("fma.rn.f32x2", tk.uint64, "90a", "sm_100"), ("fma.rn.bf16x2", tk.uint32, "75", "sm_80")],
    )
    def test_an_older_gpu_is_refused_with_the_place(self, spelling: str, dtype: Any, arch: str, wanted: str) -> None:
        @tk.kernel
        def packed(A: tk.array1d[dtype]):
            r = tk.tile_load(A, 4)
            tk.tile_apply(spelling, r, r, r, r)
            tk.tile_store(A, r)

        target = arch.rstrip("a")
        with pytest.raises(KernelValueError, match=rf"\.py:\d+: {spelling} needs {wanted} .*; target is sm_{target}"):
            tk.compile(packed, device="cuda", arch=arch)

    def test_the_cpu_has_all(self) -> None:
        @tk.kernel
        def packed(A: tk.array2d[tk.float32]):
            r = tk.tile_load(A, (3, 2))
            x = tk.tile_bitcast(r, tk.uint64)
            tk.tile_apply("fma.rn.f32x2", x, x, tk.pack2(2.0, 3.0, tk.float32), tk.pack2(1.0, 0.0, tk.float32))
            tk.tile_store(A, r)

        for device in ("cpu", "interpret"):
            a = np.arange(6, dtype=np.float32).reshape(3, 2)
            tk.launch_tiled(packed, dim=1, inputs=[a], device=device)
            np.testing.assert_array_equal(a, [[1, 3], [5, 9], [9, 15]])

    def test_flushing_is_the_same_on_every_device(self) -> None:
        """Used to be refused on the CPU."""

        @tk.kernel
        def flushed(A: tk.array1d[tk.float32]):
            r = tk.tile_load(A, 4)
            tk.tile_apply("fma.rp.ftz.sat.f32", r, r, 0.5, 2.0**-126)
            tk.tile_store(A, r)

        assert "fma.rp.ftz.sat.f32" in tk.compile(flushed, device="cuda", arch="90a", block_dim=1).source
        for device in ("cpu", "interpret"):
            a = np.float32([1e-40, -(2.0**-126), -(2.0**-125), 3.0])
            tk.launch_tiled(flushed, dim=1, inputs=[a], device=device)
            np.testing.assert_array_equal(a, np.float32([2.0**-126, 0, 0, 1]))


class TestOverlap:
    def test_the_same_elements_may_be_read_and_written(self) -> None:
        @tk.kernel
        def same(A: tk.array1d[tk.float32], n: int):
            r = tk.tile_load(A, 8)
            part = tk.tile_view(r, n, (4,))
            tk.tile_apply("fma.rn.f32", part, part, 2.0, tk.tile_view(r, n, (4,)))
            tk.tile_apply("fma.rn.f32", r[0:2], r[4:6], 1.0, r[6:8])
            tk.tile_store(A, r)

        a = np.arange(8, dtype=np.float32)
        for device in ("cpu", "interpret"):
            found = a.copy()
            tk.launch_tiled(same, dim=1, inputs=[found, 2], device=device)
            np.testing.assert_array_equal(found, [12 + 6, 15 + 7, 6, 9, 12, 15, 6, 7])

    @pytest.mark.parametrize("device", ["cpu", "interpret"])
    def test_run_time_offsets_are_compared_in_checked_mode(self, device: str) -> None:
        @tk.kernel
        def shifted(A: tk.array1d[tk.float32], n: int):
            r = tk.tile_load(A, 8)
            tk.tile_apply("fma.rn.f32", tk.tile_view(r, n, (4,)), r[0:4], 2.0, 1.0)
            tk.tile_store(A, r)

        a = np.arange(8, dtype=np.float32)
        with tk.config.scoped(checked=True):
            for start in (0, 4):
                tk.launch_tiled(shifted, dim=1, inputs=[a.copy(), start], device=device)
            with pytest.raises(KernelValueError, match="overlap, but are not the same elements"):
                tk.launch_tiled(shifted, dim=1, inputs=[a.copy(), 1], device=device)


class TestGradients:
    def test_what_has_no_adjoint_is_refused_by_name(self) -> None:
        @tk.kernel
        def rounds(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
            r = tk.tile_load(A, 4)
            tk.tile_apply("cvt.rni.f32.f32", r, r)
            tk.tile_store(Out, r)

        with pytest.raises(
            KernelNotImplementedError, match=r"through 'tk\.tile_apply\(.*: cvt\.rni\.f32\.f32 has no adjoint"
        ):
            differentiate(traced(rounds, {"A": numbers(4), "Out": numbers(4)}))

    def test_a_gradient_is_not_lost_in_bits(self) -> None:
        @tk.kernel
        def packed(A: tk.array1d[tk.float16], Out: tk.array1d[tk.float16]):
            r = tk.tile_load(A, 4)
            x = tk.tile_bitcast(r, tk.uint32)
            tk.tile_apply("fma.rn.f16x2", x, x, x, x)
            tk.tile_store(Out, r)

        arrays = {"A": numbers(4, dtype=np.float16), "Out": numbers(4, dtype=np.float16)}
        with pytest.raises(
            KernelNotImplementedError, match=r"through .*: it reads the bits of numbers as other numbers"
        ):
            differentiate(traced(packed, arrays))

    def test_loads_and_stores_name_what_to_use(self) -> None:
        arrays = {"A": numbers(4, 1), "Out": numbers(4, 1)}
        with pytest.raises(KernelNotImplementedError, match=r"atoms that store have no adjoint; use tk\.tile_store"):
            differentiate(traced(affine_fma, arrays))

    def test_clamped_results_pass_nothing_on(self) -> None:
        @tk.kernel
        def clamped(A: tk.array1d[tk.float32], B: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
            a, b, r = tk.tile_load(A, 4), tk.tile_load(B, 4), tk.tile_empty(4)
            tk.tile_apply("fma.rn.sat.f32", r, a, b, 0.5)
            tk.tile_store(Out, r)

        a = np.array([1, -1, 0.25, 2], np.float32)
        b = np.array([1, 1, 1, 0.125], np.float32)
        arrays = {"A": a, "B": b, "Out": np.zeros(4, np.float32)}
        found = gradients(traced(clamped, arrays), arrays, {"Out": np.ones(4, np.float32)}, (1,))
        np.testing.assert_array_equal(found["A"], [0, 0, 1, 0.125])
        np.testing.assert_array_equal(found["B"], [0, 0, 0.25, 2])


class TestViewsOfBits:
    def test_parts_and_loops(self) -> None:
        """A view of bits, and views of that, are carried through loops and written through."""

        @tk.kernel
        def carried(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32], n: int):
            r = tk.tile_load(A, 8)
            odd = tk.tile_bitcast(r[2:6], tk.uint32)
            bytes = tk.tile_bitcast(odd, tk.uint8)
            for i in range(n):
                odd[i] = odd[i] ^ tk.uint32(0x80000000)
                bytes[4 * i + 3] = bytes[4 * i + 3] & tk.uint8(0xBF)
            tk.tile_store(Out, r)

        a = np.arange(1, 9, dtype=np.float32)
        bits = a.view(np.uint32).copy()
        bits[2:5] = (bits[2:5] ^ 0x80000000) & 0xBFFFFFFF
        for device in ("cpu", "interpret"):
            out = np.zeros(8, np.float32)
            tk.launch_tiled(carried, dim=1, inputs=[a, out, 3], device=device)
            np.testing.assert_array_equal(out.view(np.uint32), bits)

    def test_a_view_that_is_not_in_place_is_copied_and_written_back(self) -> None:
        @tk.kernel
        def gaps(A: tk.array1d[tk.float16], Out: tk.array1d[tk.float16]):
            r = tk.tile_load(A, 9)
            x = tk.tile_bitcast(r[1::2], tk.uint32)
            tk.tile_apply("fma.rn.f16x2", x, x, tk.pack2(2.0, 3.0, tk.float16), x)
            y = tk.tile_bitcast(r[1:5], tk.uint32)
            y[0] = tk.pack2(r[0], 0.0, tk.float16)
            tk.tile_store(Out, r)

        a = np.arange(9, dtype=np.float16)
        want = a.copy()
        want[1::2] += want[1::2] * np.array([2, 3, 2, 3], np.float16)
        want[1:3] = 0
        for device in ("cpu", "interpret"):
            out = np.zeros(9, np.float16)
            tk.launch_tiled(gaps, dim=1, inputs=[a], outputs=[out], device=device)
            np.testing.assert_array_equal(out, want)
