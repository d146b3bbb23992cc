"""Lambdas of a module or function that stand on one line are told apart."""

import numpy as np

import tilekit as tk

add_one, add_two = lambda x: x + 1.0, lambda x: x + 2.0  # noqa: E731


def made(k):
    return lambda x: x + k, lambda x: x - k


plus, minus = made(3.0)
table = {
    "add": lambda x: x + 5.0, "sub": lambda x: x - 5.0,
    "pick": lambda x: (
        x * 2.0
    ),
}  # fmt: skip


@tk.kernel
def applies(n: float, out: tk.array1d[float]):
    out[0] = add_one(n)
    out[1] = add_two(n)
    out[2] = plus(n)
    out[3] = minus(n)
    out[4] = table["add"](n)
    out[5] = table["sub"](n)
    out[6] = table["pick"](n)


def test_each_lambda_is_itself():
    out = np.zeros(7, np.float32)
    for device in ("cpu", "interpret"):
        tk.launch_tiled(applies, dim=1, inputs=[10.0], outputs=[out], block_dim=32, device=device)
        assert out.tolist() == [11.0, 12.0, 13.0, 7.0, 15.0, 5.0, 20.0]
