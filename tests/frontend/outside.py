"""A module that kernels of the tests get at as a value."""

import functools
from dataclasses import dataclass

import numpy as np

GAIN = 2.0
TABLE = [1.0, 2.0]
OTHER = 1.0
LEVELS = [1.0, 2.0]
WEIGHTS = np.array([1.0, 2.0], np.float32)


def gain():
    return GAIN


def guarded_gain():
    """Python that no kernel can inline: it runs while the kernel is traced."""
    try:
        return GAIN
    except NameError:
        return 0.0


def imported_gain():
    from tests.frontend import outside

    return outside.GAIN


def imported_name():
    from .outside import GAIN as found

    return found


def imported_module():
    import tests.frontend.outside as here

    return here.GAIN


@functools.cache
def cached_gain(version):
    return GAIN


class Word(str):
    @property
    def gain(self):
        return GAIN


def guarded(thing):
    try:
        return thing.scale()
    except AttributeError:
        return thing.GAIN


def levels():
    try:
        return float(sum(LEVELS) + WEIGHTS.sum())
    except TypeError:
        return 0.0


class Settings:
    def __init__(self, gain=1.0):
        self.gain = gain
        self.weights = np.array([1.0, 2.0], np.float32)
        self.inner = None
        self.callback = None

    def scale(self):
        return GAIN

    def through_self(self):
        return self.scale() * self.gain

    @property
    def level(self):
        return GAIN

    def __getattr__(self, name):
        if name == "dynamic":
            return GAIN
        raise AttributeError(name)

    def __getitem__(self, index):
        return GAIN

    def __add__(self, other):
        return GAIN + other


class Made:
    """Its objects are made while a kernel is traced."""

    def __init__(self, unit):
        self.value = unit * GAIN

    def by(self, x):
        return x * self.value


@dataclass
class Pair:
    first: float
    second: float


def made_by(factor):
    """A function that is made while a kernel is traced."""

    def scaled(x):
        return x * factor * GAIN

    return scaled
