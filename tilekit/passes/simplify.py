"""Make a function do less: what is computed twice, in every iteration, or through tiles that only pass something on."""

from __future__ import annotations

from tilekit.ir.core import Function
from tilekit.passes.canonicalize import canonicalize
from tilekit.passes.eliminate_common import eliminate_common
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.fuse_maps import fuse_maps
from tilekit.passes.hoist_invariants import hoist_invariants


def simplify(fn: Function) -> Function:
    """The function with less to do, and the same bits in every array that it writes."""
    found = eliminate_common(hoist_invariants(canonicalize(fn)))
    return fuse_maps(fn if found is fn else eliminate_dead_code(found))
