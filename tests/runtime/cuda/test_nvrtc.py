"""NVRTC and the cache of what it makes; no GPU is needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tests.timing import allowed
from tilekit.codegen.target import Target
from tilekit.errors import CompileError, DeviceError
from tilekit.runtime import cache
from tilekit.runtime.cuda import build, nvrtc
from tilekit.runtime.cuda.nvrtc import Cubin
from tilekit.runtime.parallel import in_parallel
from tilekit.runtime.process import TimedOutError

SOURCE = """
#include "launch.h"
extern "C" __global__ void tk_launch(float* p) { p[threadIdx.x] = p[threadIdx.x] * 2.0f + 1.0f; }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with tk.config.scoped(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


def target(arch: str = "90a") -> Target:
    return Target("cuda", arch, 32, threads=32)


@needs_nvrtc
@pytest.mark.parametrize(
    ("arch", "machine"), [("75", 75), ("80", 80), ("90", 90), ("90a", 90), ("100", 100), ("120", 120)]
)
def test_a_cubin_for_every_architecture(folder: Path, arch: str, machine: int) -> None:
    cubin, place = build.build(SOURCE, "scale", target(arch), {})
    assert cubin.code[:4] == b"\x7fELF"
    assert b"tk_launch" in cubin.code and f"sm_{arch}".encode() in cubin.code
    assert 2 <= cubin.registers <= 32 and cubin.spilled == 0
    assert (place / "kernel.cu").read_text() == SOURCE
    (entry,) = cache.list_entries()
    assert entry.kind == "cuda" and entry.describe["architecture"] == f"sm_{arch}"


class Watched:
    """NVRTC's binding, which keeps what memory it was given to write into."""

    def __init__(self, real: Any) -> None:
        self.real, self.given = real, {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if name not in ("nvrtcGetProgramLog", "nvrtcGetCUBIN"):
            return found
        return lambda program, memory: (self.given.update({name: type(memory)}), found(program, memory))[1]


@needs_nvrtc
def test_nvrtc_writes_into_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of one length and value may be one object in the whole process; an empty log is not asked for."""
    watched = Watched(nvrtc._bindings())
    monkeypatch.setattr(nvrtc, "_bindings", lambda: watched)
    nvrtc.compile_cubin("", "empty", {}, ["--gpu-architecture=sm_90"])
    assert watched.given == {"nvrtcGetCUBIN": bytearray}
    nvrtc.compile_cubin("", "empty", {}, ["--gpu-architecture=sm_90", "--ptxas-options=-v"])
    with pytest.raises(CompileError, match="oops"):
        nvrtc.compile_cubin("oops", "wrong", {}, ["--gpu-architecture=sm_90"])
    assert set(watched.given.values()) == {bytearray} and len(watched.given) == 2


@pytest.mark.gpu
@needs_nvrtc
def test_nvrtc_has_no_cache_that_mixes_options_up() -> None:
    """Where there is a driver, the second of these had the machine code of the first."""
    text, base = 'extern "C" __global__ void scale(float* a) { a[0] = 3.0f * a[0]; }', ("--gpu-architecture=sm_90",)
    exact, fast = (nvrtc.compile_cubin(text, "scale", {}, [*base, *more]) for more in ((), ("--use_fast_math",)))
    assert exact.code != fast.code
    for _ in range(2):
        assert nvrtc.compile_cubin(text, "scale", {}, [*base, "--ptxas-options=--verbose"]).registers > 0


@needs_nvrtc
def test_nvrtc_is_told_to_use_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bytes] = []
    real = nvrtc._bindings()
    compiles = real.nvrtcCompileProgram
    monkeypatch.setattr(real, "nvrtcCompileProgram", lambda *args: (told.extend(args[2]), compiles(*args))[1])
    nvrtc.compile_cubin("", "empty", {}, ["--gpu-architecture=sm_90"])
    assert told == [b"--gpu-architecture=sm_90", b"--no-cache"]


@needs_nvrtc
def test_contraction_is_asked_for(folder: Path) -> None:
    """``a * b + c`` is two roundings unless the kernel says otherwise: then the code is shorter."""
    exact, _ = build.build(SOURCE, "scale", target(), {})
    fast, _ = build.build(SOURCE, "scale", target(), {"module_options": {"fast_math": True}})
    assert exact.code != fast.code
    with tk.config.scoped(fast_math=True):
        assert build.build(SOURCE, "scale", target(), {})[0].code == fast.code


def test_options() -> None:
    found = build.options_of(target(), {"cuda_max_registers": 64})
    assert found == (
        "--gpu-architecture=sm_90a", "-std=c++17", "--ptxas-options=--verbose", "--fmad=false", "--maxrregcount=64",
    )  # fmt: skip
    with tk.config.scoped(lineinfo=True):
        assert "--generate-line-info" in build.options_of(target(), {})


@needs_nvrtc
def test_the_second_build_comes_from_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, place = build.build(SOURCE, "scale", target(), {})
    monkeypatch.setattr(nvrtc, "compile_cubin", lambda *given: pytest.fail("compiled again"))
    assert build.build(SOURCE, "scale", target(), {}) == (first, place)
    monkeypatch.undo()
    (place / "kernel.cubin").write_bytes(b"damaged")
    assert build.build(SOURCE, "scale", target(), {})[0].code == first.code


@needs_nvrtc
@pytest.mark.parametrize("changed", ["source", "headers", "version", "arch"])
def test_what_makes_another_entry(folder: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    build.build(SOURCE, "scale", target(), {})
    source, arch = SOURCE, "90a"
    if changed == "source":
        source += "\n"
    elif changed == "headers":
        monkeypatch.setattr(build, "_header_digest", lambda: "another")
    elif changed == "version":
        monkeypatch.setattr(nvrtc, "version", lambda: (13, 99))
    else:
        arch = "90"
    build.build(source, "scale", target(arch), {})
    assert len(cache.list_entries()) == 2


@needs_nvrtc
def test_refused_code(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            build.build(SOURCE.replace("2.0f", "two"), "bad kernel", target(), {})
        text = str(caught.value)
        assert "could not compile kernel 'bad kernel'" in text and 'identifier "two" is undefined' in text
        assert "bad_kernel.cu(3)" in text and "--gpu-architecture=sm_90a" in text
    assert not cache.list_entries()


@needs_nvrtc
@pytest.mark.parametrize("arch", ["70", "999", "ninety", "", "90 -G"])
def test_architectures_that_nvrtc_does_not_know(folder: Path, arch: str) -> None:
    with pytest.raises(CompileError, match=f"makes no code for sm_{arch}; it knows 75, 80"):
        build.build(SOURCE, "scale", target(arch), {})


@pytest.mark.parametrize(
    ("capability", "arch"), [((7, 5), "75"), ((8, 9), "86"), ((9, 0), "90a"), ((10, 3), "100"), ((12, 0), "120")]
)
def test_the_architecture_of_a_device(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], arch: str) -> None:
    """The newest that its generation has and NVRTC knows: code runs on later devices of one generation."""
    monkeypatch.setattr(nvrtc, "architectures", lambda: (75, 80, 86, 90, 100, 120))
    assert nvrtc.arch_of(capability) == arch


def test_a_device_that_is_too_new_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "architectures", lambda: (75, 80))
    monkeypatch.setattr(nvrtc, "version", lambda: (12, 9))
    with pytest.raises(
        CompileError, match=r"NVRTC 12.9 makes no code for sm_90; .*nvidia-cuda-nvrtc has newer versions"
    ):
        nvrtc.arch_of((9, 0))
    with pytest.raises(CompileError, match=r"NVRTC 12.9 makes no code for sm_70; it knows 75, 80$"):
        nvrtc.arch_of((7, 0))


def test_the_driver_must_be_of_the_same_major_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 5))
    for served in (13000, 13050, 14000):
        nvrtc.check_driver(served)
    with pytest.raises(
        DeviceError, match=r"NVRTC 13.5 makes code for CUDA 13, but the NVIDIA driver serves CUDA 12.4 on"
    ):
        nvrtc.check_driver(12040)


def test_what_the_assembler_says() -> None:
    log = "Used 24 registers, used 1 barriers\n 8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads"
    assert (Cubin(b"", log).registers, Cubin(b"", log).spilled) == (24, 16)
    assert (Cubin(b"", "").registers, Cubin(b"", "").spilled) == (0, 0)


def test_a_time_limit() -> None:
    with tk.config.scoped(compile_timeout=1):
        began = time.monotonic()
        with pytest.raises(TimedOutError, match=r"it did not finish in 1 s \(option compile_timeout\)"):
            nvrtc.on_thread(lambda: time.sleep(15), "it")
        assert time.monotonic() - began < 10


@needs_nvrtc
def test_threads_that_want_one_kernel_compile_it_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    real = nvrtc.compile_cubin
    monkeypatch.setattr(nvrtc, "compile_cubin", lambda *given: (compiled.append(given), real(*given))[1])
    found = in_parallel([lambda: build.build(SOURCE, "scale", target(), {})[0] for _ in range(16)])
    assert len(compiled) == 1 and all(cubin == found[0] for cubin in found)


@needs_nvrtc
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_answered(tmp_path: Path) -> None:
    """A kernel that takes many seconds to compile; the process is interrupted and ends at once, leaving nothing."""
    code = """
        import sys, time
        import tilekit as tk
        from tilekit.codegen.target import Target
        from tilekit.runtime.cuda import build, nvrtc
        body = "".join(f"p[{i}] = A<150>::f(p[{i}] * {i}) + A<{i % 50 + 100}>::f(p[{i} + 1]);" for i in range(400))
        source = (
            "template <int N> struct A { static __device__ float f(float x) { return A<N - 1>::f(x) * x + N; } };"
            "template <> struct A<0> { static __device__ float f(float x) { return x; } };"
            'extern "C" __global__ void tk_launch(float* p) {' + body + "}"
        )
        nvrtc.version()
        print("begins", flush=True)
        try:
            build.build(source, "long", Target("cuda", "90a"), {})
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(3)
        else:
            print("done", flush=True)
    """
    environment = {**os.environ, "TILEKIT_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begins\n"
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert child.stdout.readline() == "interrupted\n"
        assert time.monotonic() - began < allowed(1)
        assert child.wait(20) == 3
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("registers", "spilled", "options", "compiled"),
    [
        (40, (96, 0), {}, 2),
        (40, (96, 104), {}, 2),  # it is not better
        (255, (96, 0), {}, 1),  # there are no more
        (40, (0, 0), {}, 1),
        (40, (96, 0), {"cuda_max_registers": 40}, 1),  # which was asked for
    ],
)
def test_registers_that_there_are_are_not_spilled(
    folder: Path, monkeypatch: pytest.MonkeyPatch, registers: int, spilled: Any, options: Any, compiled: int
) -> None:
    sources = []

    def compile_cubin(source: str, *_: Any) -> Cubin:
        sources.append(source)
        said = spilled[len(sources) - 1]
        return Cubin(source.encode(), f"{said} bytes spill stores, Used {registers} registers")

    monkeypatch.setattr(nvrtc, "compile_cubin", compile_cubin)
    source = 'extern "C" __global__ void __launch_bounds__(128) tk_launch() {}'
    alone = source.replace("(128)", "(128, 1)")
    cubin, where = build.build(source, "spills", Target("cuda", "90", threads=128), options)
    assert sources == [source, alone][:compiled]
    best = alone if compiled == 2 and spilled[1] < spilled[0] else source
    assert (cubin.code.decode(), (where / "kernel.cu").read_text()) == (best, best)
