"""A program whose kernel ``test_interpreter.py`` debugs with pdb, from outside."""

import numpy as np

import tilekit as tk


@tk.func
def blend(x: float, y: float):
    total = x + y
    return total / 2.0


@tk.kernel
def smooth(a: tk.array1d[float], n: int, out: tk.array1d[float]):
    i = tk.tid()
    before = a[i]
    for k in range(n):
        after = blend(before, tk.float32(k))
        before = after
    out[i] = before


def main():
    a = np.arange(4, dtype=np.float32)
    out = np.zeros(4, np.float32)
    tk.launch(smooth, dim=4, inputs=[a, 20], outputs=[out], device="interpret")
    print("done", out[0])


if __name__ == "__main__":
    main()
