"""A Warp-style kernel language for tiles: ``import tilekit as tk``."""

from __future__ import annotations

from typing import Any

from tilekit import builtins as _builtins
from tilekit import errors as errors
from tilekit.config import config as config
from tilekit.frontend.kernel import Kernel as Kernel
from tilekit.frontend.kernel import func as func
from tilekit.frontend.kernel import kernel as kernel
from tilekit.ir.annotations import array as array
from tilekit.ir.annotations import array1d as array1d
from tilekit.ir.annotations import array2d as array2d
from tilekit.ir.annotations import array3d as array3d
from tilekit.ir.annotations import array4d as array4d
from tilekit.ir.types import (
    DType as DType,
)
from tilekit.ir.types import (
    bfloat16 as bfloat16,
)
from tilekit.ir.types import bool_ as bool
from tilekit.ir.types import (
    float16 as float16,
)
from tilekit.ir.types import (
    float32 as float32,
)
from tilekit.ir.types import (
    float64 as float64,
)
from tilekit.ir.types import (
    int8 as int8,
)
from tilekit.ir.types import (
    int16 as int16,
)
from tilekit.ir.types import (
    int32 as int32,
)
from tilekit.ir.types import (
    int64 as int64,
)
from tilekit.ir.types import (
    uint8 as uint8,
)
from tilekit.ir.types import (
    uint16 as uint16,
)
from tilekit.ir.types import (
    uint32 as uint32,
)
from tilekit.ir.types import (
    uint64 as uint64,
)
from tilekit.public import find, listed
from tilekit.runtime.launch import Launch as Launch
from tilekit.runtime.launch import launch as launch
from tilekit.runtime.launch import launch_tiled as launch_tiled


def __getattr__(name: str) -> Any:
    return find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *listed()})
