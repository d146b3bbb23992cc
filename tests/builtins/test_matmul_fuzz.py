"""tile_matmul against float64: sizes 1 to 70, dtypes, transposes and other views, factors, ragged arrays."""

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tilekit as tk
from tests import on_gpu
from tests.builtins.both import run
from tests.builtins.products import DTYPES, HOST, UNIT, VIEWS, Spec, bound, check_tiled, straight, tiled, values

quiet = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
sizes = st.tuples(*(st.integers(1, 70) for _ in range(3)))
factors = st.sampled_from([0.0, 1.0, -1.0, 0.5, -2.25, 3.0])
seeds = st.integers(0, 2**32 - 1)


@cache
def pool(count: int) -> list[Spec]:
    """Products that are compiled once, and run at many sizes; together they cover every dtype and view."""
    rng = np.random.default_rng(12)
    specs = []
    for i in range(count):
        m, n, k = (int(v) for v in rng.integers(1, 25, 3))
        a, b, out = (str(rng.choice(list(DTYPES))) for _ in range(3))
        views = [VIEWS[(i + shift) % 4] for shift in (0, int(rng.integers(4)), 0)]
        specs.append(Spec(m, n, k, a, b, out, views[0], views[1], "transposed" if i % 3 == 1 else "plain"))
    return specs


@cache
def compiled(spec: Spec):
    return tiled(spec)


def check(index: int, count: int, size, alpha: float, beta: float, seed: int, poison: bool) -> None:
    spec = pool(count)[index % count]
    check_tiled(compiled(spec), spec, size, alpha, beta, seed, poison)


@settings(max_examples=240, derandomize=True, **quiet)
@given(st.integers(0, 11), sizes, factors, factors, seeds, st.booleans())
def test_products_of_any_size(index, size, alpha, beta, seed, poison):
    check(index, 12, size, alpha, beta, seed, poison)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
@settings(max_examples=1900, **quiet)
@given(st.integers(0, 59), sizes, factors, factors, seeds, st.booleans())
def test_products_of_any_size_at_length(part, index, size, alpha, beta, seed, poison):
    check(index, 60, size, alpha, beta, seed, poison)


@pytest.mark.gpu
@pytest.mark.skipif(not on_gpu.GPUS, reason="needs a CUDA device")
@pytest.mark.parametrize("part", range(4))
@settings(max_examples=500, **quiet)
@given(st.integers(0, 59), sizes, factors, factors, seeds, st.booleans())
def test_products_of_any_size_on_a_gpu(part, index, size, alpha, beta, seed, poison):
    spec = pool(60)[index]
    check_tiled(compiled(spec), spec, size, alpha, beta, seed, poison, on_gpu.launch_tiled)


def exactly(specs: tuple[Spec, ...]):
    """A kernel with one product for each spec, each by tiles of the whole size."""
    shapes = tuple((s.m, s.n, s.k) for s in specs)
    types = tuple(tuple(DTYPES[name] for name in (s.a, s.b, s.out)) for s in specs)

    @tk.kernel
    def products(
        a: tk.array3d[tk.float64], b: tk.array3d[tk.float64], c: tk.array3d[tk.float64],
        factors: tk.array2d[float], out: tk.array3d[tk.float64],
    ):  # fmt: skip
        both = tk.tile_load(factors, shape=(8, 2))
        for i in range(len(shapes)):
            m, n, k = shapes[i]
            p = tk.tile_astype(tk.tile_reshape(tk.tile_load(a, shape=(1, m, k), offset=(i, 0, 0)), (m, k)), types[i][0])
            q = tk.tile_astype(tk.tile_reshape(tk.tile_load(b, shape=(1, k, n), offset=(i, 0, 0)), (k, n)), types[i][1])
            t = tk.tile_astype(tk.tile_load(c, shape=(1, m, n), offset=(i, 0, 0)), types[i][2])
            tk.tile_matmul(p, q, tk.tile_squeeze(t, 0), alpha=both[i, 0], beta=both[i, 1])
            tk.tile_store(out, tk.tile_astype(t, tk.float64), offset=(i, 0, 0))

    return products


def check_exactly(specs: tuple[Spec, ...], scales: list[tuple[float, float]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c, out = (np.zeros((len(specs), 70, 70)) for _ in range(4))
    for i, s in enumerate(specs):
        for array, shape, dtype in ((a, (s.m, s.k), s.a), (b, (s.k, s.n), s.b), (c, (s.m, s.n), s.out)):
            array[i, : shape[0], : shape[1]] = straight(values(rng, shape, dtype), "plain")
    factors = np.array(scales, np.float32)
    (found,) = run(exactly(specs), [a, b, c, factors], [out])
    for i, s in enumerate(specs):
        left, right, old = a[i, : s.m, : s.k], b[i, : s.k, : s.n], c[i, : s.m, : s.n]
        alpha, beta = scales[i]
        wanted = alpha * (left @ right) + beta * old
        error = np.abs(found[i, : s.m, : s.n] - wanted)
        assert (error <= bound(s, s.k, left, right, old, alpha, beta, wanted)).all(), s


names = st.sampled_from(list(DTYPES))
spec = st.builds(
    lambda size, a, b, out: Spec(*size, a, b, out), sizes, names, names, st.sampled_from(["f16", "f32", "f64"])
)
batches = st.lists(st.tuples(spec, st.tuples(factors, factors)), min_size=5, max_size=5)


@settings(max_examples=2, derandomize=True, **quiet)
@given(batches, seeds)
def test_products_of_tiles_of_any_size(batch, seed):
    check_exactly(tuple(s for s, _ in batch), [scales for _, scales in batch], seed)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
@settings(max_examples=20, **quiet)
@given(batches, seeds)
def test_products_of_tiles_of_any_size_at_length(part, batch, seed):
    check_exactly(tuple(s for s, _ in batch), [scales for _, scales in batch], seed)


def test_the_pool_covers_every_dtype_and_view():
    for count in (12, 60):
        specs = pool(count)
        assert {s.a for s in specs} == {s.b for s in specs} == set(DTYPES) == set(HOST) == set(UNIT)
        assert {s.see_a for s in specs} == {s.see_b for s in specs} == set(VIEWS)
