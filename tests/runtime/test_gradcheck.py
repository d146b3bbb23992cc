"""``tk.gradcheck`` and ``tk.jacobian``: right gradients pass, wrong ones do not, and the report says which."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS
from tilekit.errors import KernelNotImplementedError, KernelTypeError, KernelValueError
from tilekit.ir.builtin import REGISTRY

RNG = np.random.default_rng(3)
on_a_gpu = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def layer():
    """A new kernel each time: what is wrong with a rule must not come from another kernel's compiled gradient."""

    @tk.kernel
    def layer(x: tk.array2d[Any], w: tk.array2d[Any], bias: tk.array1d[Any], scale: float, out: tk.array2d[Any]):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(4, 4), dtype=tk.float32)
        for k in range((x.shape[1] + 7) // 8):
            a = tk.tile_load(x, shape=(4, 8), offset=(i * 4, k * 8))
            tk.tile_matmul(a, tk.tile_load(w, shape=(8, 4), offset=(k * 8, j * 4)), acc)
        b = tk.tile_astype(tk.tile_load(bias, shape=4, offset=j * 4), tk.float32)
        t = tk.tanh(acc * scale + tk.tile_broadcast(b, shape=(4, 4)))
        tk.tile_store(out, tk.tile_astype(t, out.dtype), offset=(i * 4, j * 4))

    return layer


def arrays(dtype: Any = np.float32) -> tuple[list[Any], list[Any]]:
    return [normal(7, 10, dtype=dtype), normal(10, 6, dtype=dtype), normal(6, dtype=dtype), 0.5], [
        normal(7, 6, dtype=dtype)
    ]


def test_a_float32_kernel_is_checked_in_float64(capsys: pytest.CaptureFixture[str]) -> None:
    inputs, outputs = arrays()
    before = [np.copy(array) for array in (*inputs, *outputs)]
    assert tk.gradcheck(layer(), dim=(2, 2), inputs=inputs, outputs=outputs)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gradcheck of kernel 'layer' in float64: passed"
    assert [line.split()[:2] for line in lines[2:5]] == [["x", "out"], ["w", "out"], ["bias", "out"]]
    assert {line.split()[2] for line in lines[2:]} == {"as", "strided", "ragged"}
    assert all(float(line.split()[-3]) < 1e-7 for line in lines[2:])
    for array, kept in zip((*inputs, *outputs), before, strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_kernel_of_16_bit_floats_is_checked_in_them(dtype: Any, capsys: pytest.CaptureFixture[str]) -> None:
    inputs, outputs = arrays(dtype)
    assert tk.gradcheck(layer(), dim=(2, 2), inputs=inputs, outputs=outputs)
    assert f"in {np.dtype(dtype).name}: passed" in capsys.readouterr().out


@tk.func
def square(x: float):
    return x * x


@tk.func_grad(square)
def adj_square(x: float, adj: float):
    tk.adjoint[x] += 2.0 * x * adj


@tk.func
def cube(x: float):
    return x * x * x


@tk.func_grad(cube)
def adj_cube(x: float, adj: float):
    tk.adjoint[x] += 2.0 * x * adj


@tk.kernel
def with_its_gradient(x: tk.array1d[float], y: tk.array1d[float]):
    i = tk.tid()
    y[i] = square(x[i])


@tk.kernel
def with_a_wrong_one(x: tk.array1d[float], y: tk.array1d[float]):
    i = tk.tid()
    y[i] = cube(x[i])


def test_a_gradient_of_ones_own_is_checked_in_the_dtype_it_is_declared_for(capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, Any] = {"dim": 8, "inputs": [normal(8)], "outputs": [normal(8)], "tiled": False}
    assert tk.gradcheck(with_its_gradient, **given)
    assert capsys.readouterr().out.startswith("gradcheck of kernel 'with_its_gradient' in float32: passed")
    with pytest.raises(KernelValueError, match="gradcheck of kernel 'with_a_wrong_one' in float32: FAILED"):
        tk.gradcheck(with_a_wrong_one, **given)


@tk.kernel
def in_tf32(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    product = tk.tile_matmul(tk.tile_load(a, shape=(8, 8)), tk.tile_load(b, shape=(8, 8)), precision="tf32")
    tk.tile_store(out, product)


@tk.kernel
def of_atoms(x: tk.array1d[float], out: tk.array1d[float]):
    a = tk.tile_load(x, shape=8)
    r = tk.tile_zeros(shape=8, dtype=float)
    tk.tile_apply("fma.rn.f32", r, a, a, a)
    tk.tile_store(out, r)


@pytest.mark.parametrize("device", ["cpu", "interpret", pytest.param("cuda", marks=on_a_gpu)])
def test_devices_and_atoms(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    def there(array: np.ndarray) -> Any:
        return pytest.importorskip("torch").from_numpy(array).cuda() if device == "cuda" else array

    inputs, outputs = [there(normal(8))], [there(normal(8))]
    assert tk.gradcheck(of_atoms, dim=1, inputs=inputs, outputs=outputs, device=device)
    assert "in float32: passed" in capsys.readouterr().out
    inputs, outputs = arrays()
    square = [there(normal(8, 8)) for _ in range(3)]
    assert tk.gradcheck(in_tf32, dim=1, inputs=square[:2], outputs=square[2:], device=device)
    assert "in float64: passed" in capsys.readouterr().out
    given = [there(x) if isinstance(x, np.ndarray) else x for x in inputs]
    assert tk.gradcheck(layer(), dim=(2, 2), inputs=given, outputs=list(map(there, outputs)), device=device)


def scaled_rule(rule: Any, names: Any) -> Any:
    return lambda **given: {name: _larger(found) for name, found in rule(**given).items()}, names


def _larger(found: Any) -> Any:
    if callable(found):
        return lambda: _larger(found())
    return found * 1.001 if hasattr(found, "dtype") else found


def silent_zero(rule: Any, names: Any) -> Any:
    return lambda **given: dict.fromkeys(rule(**given), 0), names


@pytest.mark.parametrize(
    ("builtin", "mutate", "wrong"), [("tanh", scaled_rule, "x"), ("tile_matmul", silent_zero, "w")]
)
def test_a_wrong_rule_is_noticed(
    builtin: str, mutate: Any, wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A factor that is off by a thousandth, and a gradient that is silently zero."""
    monkeypatch.setitem(REGISTRY[builtin]._rules, "adjoint", mutate(*REGISTRY[builtin]._rules["adjoint"]))
    inputs, outputs = arrays()
    kernel = layer()
    with pytest.raises(KernelValueError, match="gradcheck of kernel 'layer' in float64: FAILED") as caught:
        tk.gradcheck(kernel, dim=(2, 2), inputs=inputs, outputs=outputs)
    assert not capsys.readouterr().out  # the error has it all
    lines = [line.split() for line in str(caught.value).splitlines()]
    assert [line[-1] for line in lines if line[:2] == [wrong, "out"]] == ["WRONG"] * 3
    assert not tk.gradcheck(
        kernel, (2, 2), inputs, outputs, raise_exception=False, input_output_mask=[(wrong, 0)], show_summary=False
    )


def distance(v):
    if v < 0.0:
        v = -v
    return v


@tk.kernel
def corners(x: tk.array1d[float], order: tk.array1d[int], out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_map(distance, tk.tile_load(x, shape=3, offset=order[2])))


def test_a_kink_and_what_cannot_be_cut_are_told() -> None:
    x, order = np.array([1.0, 0.0, -2.0], np.float32), np.zeros(3, np.int32)
    with pytest.raises(KernelValueError) as caught:
        tk.gradcheck(corners, dim=1, inputs=[x, order], outputs=[np.zeros(3, np.float32)], show_summary=False)
    text = str(caught.value)
    assert "kink?" in text
    assert "a kink: the differences ahead and behind differ where the kernel is not smooth at its inputs" in text
    assert "not checked with shorter arrays: " in text
    x[1] = 0.5
    assert tk.gradcheck(corners, dim=1, inputs=[x, order], outputs=[np.zeros(3, np.float32)], show_summary=False)


def test_only_arrays_that_require_grad_where_any_does(capsys: pytest.CaptureFixture[str]) -> None:
    inputs, outputs = arrays()
    inputs[1] = tk.array(inputs[1], device="cpu", requires_grad=True)
    assert tk.gradcheck(layer(), (2, 2), inputs, outputs)
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]} == {"w"}


@tk.kernel
def mixed(a: tk.array2d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    x, y = tk.tile_load(a, shape=(2, 3)), tk.tile_load(b, shape=3)
    tk.tile_store(out, tk.tile_sum(x * tk.tile_broadcast(y, shape=(2, 3)), axis=1))


def test_jacobian() -> None:
    a, b = normal(2, 3, dtype=np.float64), normal(3, dtype=np.float64)
    found = tk.jacobian(mixed, dim=1, inputs=[a, b], outputs=[np.zeros(2)])
    assert found.keys() == {(0, 0), (1, 0)}
    np.testing.assert_array_equal(found[0, 0], np.kron(np.eye(2), b))
    np.testing.assert_array_equal(found[1, 0], a)
    some = tk.jacobian(mixed, 1, [a, b], [np.zeros(2)], input_output_mask=[("b", "out")], max_outputs_per_var=1)
    np.testing.assert_array_equal(some[1, 0], [a[0], [np.nan] * 3])


def test_refusals() -> None:
    a, b, out = normal(2, 3, dtype=np.float64), normal(3, dtype=np.float64), np.zeros(2)
    for call, error, text in (
        (
            lambda: tk.gradcheck(len, 1),
            KernelTypeError,
            "gradcheck() takes a kernel made by @tk.kernel, got the builtin_function_or_method len",
        ),
        (
            lambda: tk.jacobian(mixed, None, [a, b], [out]),
            KernelTypeError,
            "jacobian() needs dim, the grid that the kernel is launched with",
        ),
        (
            lambda: tk.gradcheck(mixed, 1, [a, b], [out], input_output_mask=[("c", "out")]),
            KernelValueError,
            "input_output_mask: 'c' and 'out' are no pair of an input and an output of kernel 'mixed'; inputs are a, "
            "b, out, outputs out",
        ),
        (
            lambda: tk.gradcheck(mixed, 1, [a, b], [out], input_output_mask="a"),
            KernelTypeError,
            "input_output_mask must be a list of pairs of an input and an output, got 'a' (a string)",
        ),
        (
            lambda: tk.gradcheck(mixed, 1, [a, b], [out], plot_relative_error=True),
            KernelNotImplementedError,
            "gradcheck() draws nothing; draw what tk.jacobian() returns",
        ),
        (
            lambda: tk.jacobian(mixed, 1, [a, b, out]),
            KernelValueError,
            "kernel 'mixed' has no pair of an input and an output of floats; what it writes goes into outputs",
        ),
    ):
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eps": 0.0}, "eps must be a positive number, got 0.0"),
        ({"eps": float("nan")}, "eps must be a positive number, got nan"),
        ({"atol": -1.0}, "atol must be zero or a positive number, got -1.0"),
        ({"rtol": float("inf")}, "rtol must be zero or a positive number, got inf"),
    ],
)
def test_numbers_that_no_comparison_could_use(given: dict[str, float], message: str) -> None:
    inputs, outputs = arrays()
    with pytest.raises(KernelValueError) as caught:
        tk.gradcheck(layer(), dim=1, inputs=inputs, outputs=outputs, **given)
    assert caught.value.message == message
