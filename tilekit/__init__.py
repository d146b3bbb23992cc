"""A Warp-style kernel language for tiles: ``import tilekit as tk``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilekit import errors as errors
from tilekit.config import config as config
from tilekit.ir.annotations import (
    array as array,
    array1d as array1d,
    array2d as array2d,
    array3d as array3d,
    array4d as array4d,
)
from tilekit.ir.types import DType as DType
from tilekit.public import find, listed

if TYPE_CHECKING:  # found by ``find`` at the first use: the compiler is much of the package
    from tilekit.frontend.kernel import Kernel as Kernel, func as func, kernel as kernel
    from tilekit.runtime.compile import compile as compile
    from tilekit.runtime.cuda.waiting import synchronize as synchronize
    from tilekit.runtime.explain import explain as explain
    from tilekit.runtime.gradcheck import gradcheck as gradcheck
    from tilekit.runtime.jacobian import jacobian as jacobian
    from tilekit.runtime.launch import Launch as Launch, launch as launch, launch_tiled as launch_tiled
    from tilekit.runtime.spec import spec as spec

    # For type checkers, which take no value for a type: each dtype as Python's type of its numbers.
    bfloat16 = float
    float16 = float
    float32 = float
    float64 = float
    int8 = int
    int16 = int
    int32 = int
    int64 = int
    uint8 = int
    uint16 = int
    uint32 = int
    uint64 = int
else:
    from tilekit.ir.types import (
        bfloat16,
        bool_ as bool,
        float16,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )


def __getattr__(name: str) -> Any:
    return find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *listed()})
