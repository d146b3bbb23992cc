"""Every backend computes the same product, in every form in which kernels have them: on an emulator, and on a GPU.

The arrays are full of NaNs before, rows are coded so that one in the place of another shows, and all sums are exact.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.codegen.gemm_samples import (
    DEVICES,
    KINDS,
    PEERS,
    Library,
    Sample,
    arguments,
    expected,
    of_kinds,
    random_samples,
)
from tilekit.errors import FallbackWarning, PrecisionWarning

TOGETHER = 9
"""Samples of a test; each test compiles its own."""


def groups(samples: Sequence[Sample]) -> Iterator[Sequence[Sample]]:
    for first in range(0, len(samples), TOGETHER):
        yield samples[first : first + TOGETHER]


FIXED = list(groups([*PEERS, *of_kinds()]))
RANDOM = [list(random_samples(seed, TOGETHER)) for seed in range(6)]
FIRST = {"mma": (0, 2, 6), "scalar": (0, 6)}
"""The samples that the emulator always goes through; the others repeat their kinds."""


def marks_of(device: str, backend: str, number: int) -> list[pytest.MarkDecorator]:
    if device == "gpu":
        return [pytest.mark.gpu]
    return [] if number in FIRST.get(backend, (0, 2, 6)) else [pytest.mark.deep]


CASES = [
    pytest.param(device, backend, samples, id=f"{device}-{backend}-{number}", marks=marks_of(device, backend, number))
    for device, backends in DEVICES.items()
    for backend in backends
    for number, samples in enumerate([*FIXED, *(RANDOM if device == "gpu" else RANDOM[:1])])
]


@pytest.fixture(autouse=True)
def fallbacks_are_expected() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        warnings.simplefilter("ignore", PrecisionWarning)
        yield


@pytest.mark.parametrize(("device", "backend", "samples"), CASES)
def test_sums_are_exact(device: str, backend: str, samples: Sequence[Sample]) -> None:
    assert_exact(samples, backend, device)


def assert_exact(samples: Sequence[Sample], backend: str, device: str) -> None:
    library = Library(samples, backend, device)
    for number, sample in enumerate(samples):
        given = arguments(sample, exact=True)
        want = expected(sample, given).astype(given["c"].dtype)
        found = library.run(number, given)
        wrong = np.flatnonzero((found.astype(float) != want.astype(float)).any(1))
        assert not wrong.size, f"{sample}: rows {wrong[:8]} are wrong"


@pytest.mark.parametrize(("device", "backend", "samples"), [case for case in CASES if case.id.endswith("-2")])
def test_a_second_run_gives_the_same_bits(device: str, backend: str, samples: Sequence[Sample]) -> None:
    library = Library(samples, backend, device)
    for number, sample in enumerate(samples):
        given = arguments(sample, exact=False)
        first = library.run(number, given).copy()
        given["c"][...] = np.nan
        again = library.run(number, given)
        assert np.isfinite(first.astype(float)).all()
        assert first.tobytes() == again.tobytes(), sample
        want = expected(sample, given)
        limit = {"float64": 1e-14, "float32": 3e-3 if sample.precision == "tf32" else 1e-5}.get(sample.out.name, 3e-3)
        assert np.linalg.norm(first.astype(float) - want) <= limit * np.linalg.norm(want), sample


COLUMNS = [
    Sample(a, b, out, (64, 40, 16), extents, total, precision, epilogue=end, columns=True)
    for (a, b, out, total, precision), extents, end in zip(
        KINDS, [(96, 88, 32), (72, 67, 32), (80, 40, 16)] * 3, ["none", "relu", "added"] * 3, strict=True
    )
]


def test_columns_that_lie_side_by_side() -> None:
    assert_exact(COLUMNS, "mma", "emulator")
    library = Library(COLUMNS, "mma", "emulator")
    for generated in library.generated:
        assert re.search(r"tk::store_registers<.*, 0, [24], true, 64, 40>", generated.source)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 140))
def test_products_of_any_shape(seed: int) -> None:
    assert_exact(list(random_samples(seed, TOGETHER)), "mma", "emulator")
