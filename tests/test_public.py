"""The public names, and what documentation says of them."""

from __future__ import annotations

import enum
import inspect
from typing import Any

import pytest

import tilekit as tk
from tilekit import builtins, public
from tilekit.errors import KernelAttributeError
from tilekit.public import Documented, documented, on_the_host
from tilekit.runtime import warp_names


class Mode(enum.Enum):
    NEAR = "rn"


def example(a: int, *, dtype: Any = float, mode: Mode = Mode.NEAR, alpha: float = 1.0) -> None: ...


def test_defaults_are_written_as_a_user_would() -> None:
    entry = Documented("tile_example", "Maths", inspect.signature(example), "Do it.\n\nAt once.")
    assert entry.signature == "tile_example(a, *, dtype=float, mode=Mode.NEAR, alpha=1.0)"
    assert entry.summary == "Do it."


def test_every_public_name_is_documented_once() -> None:
    names = [entry.name for entry in documented()]
    assert sorted(names) == sorted(builtins.public_names())
    assert [entry.name for entry in documented() if not entry.doc] == []


def test_every_name_is_called_in_kernels_or_used_on_the_host_or_is_warps() -> None:
    own = [entry.name for entry in [*documented(), *on_the_host()]]
    assert len(own) == len(set(own))
    assert set(public.listed()) - set(own) == set(warp_names.names()) - set(own)
    assert [entry.name for entry in on_the_host() if not entry.summary.endswith(".")] == []


def test_families_name_their_group() -> None:
    assert [entry.name for entry in documented() if entry.group == "Other"] == []


def test_groups_are_not_torn_apart() -> None:
    groups = [entry.group for entry in documented()]
    starts = [group for before, group in zip([None, *groups], groups, strict=False) if group != before]
    assert len(starts) == len(set(groups))


def test_every_documented_name_is_an_attribute() -> None:
    missing = [e.name for e in documented() if callable(getattr(tk, e.name)) != (e.parameters is not None)]
    assert missing == []


def test_constants_have_no_parameters() -> None:
    (entry,) = [entry for entry in documented() if entry.name == "PI"]
    assert (entry.signature, entry.parameters) == ("PI", None)
    assert entry.doc == f"The constant {tk.PI!r}."


def test_a_name_like_another_is_suggested() -> None:
    with pytest.raises(KernelAttributeError, match="tilekit has no 'tile_matmull'; did you mean `tile_matmul`"):
        tk.tile_matmull


def test_what_warp_has_and_tilekit_lacks_is_named_so() -> None:
    for name in ("tile_sort", "vec3"):
        with pytest.raises(KernelAttributeError, match=f"tilekit does not have Warp's '{name}' yet"):
            getattr(tk, name)
    with pytest.raises(KernelAttributeError, match="tilekit has no 'tile_lod'; did you mean `tile_load`"):
        tk.tile_lod
    assert not hasattr(tk, "tile_sort")
    assert tk.print is print


def test_version() -> None:
    assert isinstance(tk.__version__, str) and tk.__version__
