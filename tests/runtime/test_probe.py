"""The probe compiles what kernels use; a compiler that gets some code wrong is told to make other code."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.runtime.test_hindrances import fresh as fresh
from tests.runtime.test_toolchain import script
from tilekit.config import config
from tilekit.runtime import probe
from tilekit.runtime.toolchain import Candidate, candidates

POSIX = pytest.mark.skipif(os.name != "posix", reason="compilers made of shell scripts")
FOUND = [found for found in candidates() if found.works]


@tk.kernel
def signs(x: tk.array1d[tk.float32], h: tk.array1d[tk.bfloat16], s: tk.array1d[tk.float32], t: tk.array1d[tk.bfloat16]):
    i = tk.tid()
    half = tk.float32(h[i])
    a = tk.abs(half)
    s[i] = tk.where(half == half, tk.where(half < 0.0, -(a * a), a * a), half) + x[i]
    t[i] = tk.tanh(h[i])


@tk.kernel
def tiles(h: tk.array1d[tk.bfloat16], t: tk.array1d[tk.bfloat16]):
    tk.tile_store(t, tk.tile_map(tk.tanh, tk.tile_load(h, shape=(103,))))


@pytest.mark.parametrize("found", FOUND, ids=[found.name for found in FOUND])
def test_signs_beside_a_select_are_right_with_every_compiler(found: Candidate) -> None:
    """In loops of any length: the fault is in what is left over when most of a loop runs four vectors at once."""
    values = np.linspace(-9.0, 9.0, 103).astype(np.float32)
    given = values.astype(ml_dtypes.bfloat16)
    results = {}
    for device in ("cpu", "interpret"):
        s, t, u = np.zeros(103, np.float32), np.zeros_like(given), np.zeros_like(given)
        with config.scoped(cxx=shlex.join(found.command)):
            tk.launch(signs, dim=103, inputs=[values, given, s, t], device=device)
            tk.launch_tiled(tiles, dim=1, inputs=[given, u], block_dim=32, device=device)
        assert np.array_equal(s, np.copysign(given.astype(np.float32) ** 2, values) + values)
        assert np.abs(t.astype(np.float64) - np.tanh(given.astype(np.float64))).max() < 0.01
        results[device] = [t.tobytes(), u.tobytes()]
    assert results["cpu"] == results["interpret"] and results["cpu"][0] == results["cpu"][1]


@POSIX
def test_a_compiler_that_selects_wrongly_is_used_without_avx512(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = probe._run
    monkeypatch.setattr(probe, "_run", lambda library: real(library) | (0 if (fresh / "careful").exists() else 16))
    # A stand-in for clang++, which takes what only that takes for a sign that it is careful.
    compiler = script(
        fresh,
        f"""\
        [ "$1" = --version ] && echo "clang version 22.1.8" && exit
        rm -f {fresh}/careful
        for word; do shift; case $word in
            -Xclang | -ffloat16* | -target-feature) ;;
            -avx512f) touch {fresh}/careful ;;
            *) set -- "$@" "$word" ;;
        esac; done
        exec g++ "$@"
        """,
    )
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    with config.scoped(cxx=compiler):
        for _ in range(2):
            found = candidates()[0]
            assert found.works and found.toolchain is not None, found.reason
            assert found.toolchain.careful == ("-Xclang", "-target-feature", "-Xclang", "-avx512f")
            assert found.toolchain.flags[-4:] == found.toolchain.careful
            assert found.note == "without AVX-512, with which it takes one operand of a select for another"


@POSIX
def test_a_compiler_that_lacks_what_kernels_use_fails_the_probe(fresh: Path) -> None:
    """As clang++ 16 does, which has no vectors of fused multiply-adds."""
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    lacking = "-D__builtin_ia32_vfmaddps512_mask=lacking -D__builtin_ia32_vfmaddps256=lacking -D__builtin_fmaf=lacking"
    with config.scoped(cxx=script(fresh, f'[ "$1" = --version ] && exec g++ "$@"; exec g++ "$@" {lacking}')):
        found = candidates()[0]
    assert not found.works and "lacking" in found.reason
