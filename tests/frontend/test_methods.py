"""Methods that kernels inline: what a class means by names, and by super()."""

import numpy as np
import pytest

import tilekit as tk

SCALE = 2.0


class Filter:
    def __init__(self, gain):
        self.__gain = gain
        self.taps = 3

    def __weight(self, x):
        return x * self.__gain

    def apply(self, x):
        return self.__weight(x) + 1.0

    def nested(self, x):
        return sum(float(tap) * self.__gain for tap in range(self.taps)) + x

    def base(self, x):
        return x * SCALE

    @classmethod
    def named(cls, x):
        return x + cls.__offset

    __offset = 10.0


class Sharper(Filter):
    def base(self, x):
        if x > 1.0:
            return super().base(x) + 100.0
        return super().base(x)

    @classmethod
    def named(cls, x):
        return super().named(x) * 2.0


plain, sharper = Filter(3.0), Sharper(5.0)


def applied(f, x):
    return f.apply(x)


def nested(f, x):
    return f.nested(x)


def based(f, x):
    return f.base(x)


def named(f, x):
    return f.named(x)


def kernel_of(way, thing):
    @tk.kernel
    def calls(x: float, out: tk.array1d[float]):
        out[0] = way(thing, x)

    return calls


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize(
    "way, thing, expected",
    [
        (applied, plain, 7.0),
        (applied, sharper, 11.0),
        (nested, plain, 11.0),
        (based, plain, 4.0),
        (based, sharper, 104.0),
        (named, plain, 12.0),
        (named, sharper, 24.0),
    ],
)
def test_names_of_a_class_and_super(way, thing, expected, device):
    out = np.zeros(1, np.float32)
    tk.launch_tiled(kernel_of(way, thing), dim=1, inputs=[2.0], outputs=[out], device=device)
    assert out[0] == expected


def test_what_super_leads_to_counts(monkeypatch):
    kernel, out = kernel_of(based, sharper), np.zeros(1, np.float32)
    tk.launch_tiled(kernel, dim=1, inputs=[1.0], outputs=[out])
    assert out[0] == 2.0
    monkeypatch.setitem(globals(), "SCALE", 7.0)
    tk.launch_tiled(kernel, dim=1, inputs=[1.0], outputs=[out])
    assert out[0] == 7.0
    monkeypatch.setattr(Filter, "base", lambda self, x: x + 0.5)
    tk.launch_tiled(kernel, dim=1, inputs=[1.0], outputs=[out])
    assert out[0] == 1.5
