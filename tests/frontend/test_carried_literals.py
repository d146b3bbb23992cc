"""A literal that a loop assigns never loses its value to the variable's dtype."""

import numpy as np
import pytest

import tilekit as tk


@tk.kernel
def float_into_int(n: int, out: tk.array1d[float]):
    x = n
    for _ in range(n):
        x = 0.5
    out[0] = float(x)


@tk.kernel
def int_into_bool(n: int, out: tk.array1d[float]):
    x = n > 1
    for _ in range(n):
        x = 2
    out[0] = float(x)


@tk.kernel
def bool_into_int(n: int, out: tk.array1d[float]):
    x = 2
    for _ in range(n):
        x = True
    out[0] = float(x)


@tk.kernel
def zeros_of_two_signs(n: int, out: tk.array1d[float]):
    x = 0.0 if n > 0 else -0.0
    out[0] = x


@tk.kernel
def narrow_bounds(n: tk.uint8, out: tk.array1d[float]):
    total = 0.0
    for i in range(0, n, 2):
        total += float(i)
    for _ in range(0, n, 100):
        total += 1.0
        if total > 1e6:
            break
    out[0] = total


@pytest.mark.parametrize("kernel", [float_into_int, int_into_bool, bool_into_int], ids=lambda kernel: kernel.key)
@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_it_is_refused(kernel, device):
    out = np.zeros(1, np.float32)
    with pytest.raises(tk.errors.TilekitError, match="before the loop and .* at the end of an iteration"):
        tk.launch_tiled(kernel, dim=1, inputs=[3], outputs=[out], block_dim=32, device=device)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_zeros_keep_their_sign(device):
    for n in (0, 1):
        out = np.full(1, 7.0, np.float32)
        tk.launch_tiled(zeros_of_two_signs, dim=1, inputs=[n], outputs=[out], block_dim=32, device=device)
        assert out[0] == 0.0 and np.signbit(out[0]) == (n == 0)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_the_index_of_a_narrow_range_does_not_wrap(device):
    out = np.zeros(1, np.float32)
    tk.launch_tiled(narrow_bounds, dim=1, inputs=[255], outputs=[out], block_dim=32, device=device)
    assert out[0] == sum(range(0, 255, 2)) + 3
