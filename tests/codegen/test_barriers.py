"""Where threads wait, and the proof that they wait enough."""

import numpy as np
import pytest

import tilekit as tk
from tilekit.codegen.barriers import ARRAYS, Access, Pending, Steps, verify_barriers
from tilekit.codegen.storage import Buffer
from tilekit.ir.types import TileType, float32

FIRST = Buffer(TileType(float32, (16,)), 0)
INSIDE_FIRST = Buffer(TileType(float32, (4,)), 32)
BEHIND = Buffer(TileType(float32, (16,)), 64)


@pytest.mark.parametrize(
    ("done", "next", "wait"),
    [
        (Access(writes=(FIRST,)), Access(reads=(FIRST,)), True),
        (Access(reads=(FIRST,)), Access(writes=(FIRST,)), True),
        (Access(writes=(FIRST,)), Access(writes=(INSIDE_FIRST,)), True),
        (Access(reads=(FIRST,)), Access(reads=(FIRST,)), False),
        (Access(writes=(FIRST,)), Access(reads=(BEHIND,)), False),
        (Access(writes=(ARRAYS,)), Access(reads=(ARRAYS,)), True),
        (Access(writes=(ARRAYS,)), Access(writes=(FIRST,)), False),
    ],
)
def test_a_wait_stands_between_conflicting_steps(done, next, wait):
    pending = Pending()
    pending.add(done)
    assert pending.conflicts(next) is wait
    if wait:
        with pytest.raises(AssertionError, match="a barrier is missing"):
            verify_barriers(Steps([done, next]))
    verify_barriers(Steps([done, None, next]))


WRITE, READ = Access(writes=(FIRST,)), Access(reads=(FIRST,))


def test_what_an_iteration_leaves_meets_the_next_one():
    with pytest.raises(AssertionError):
        verify_barriers(Steps([Steps([WRITE, None, READ], "loop")]))
    verify_barriers(Steps([Steps([WRITE, None, READ, None], "loop")]))


def test_what_precedes_a_loop_meets_its_first_iteration_and_what_follows():
    with pytest.raises(AssertionError):
        verify_barriers(Steps([WRITE, Steps([READ], "loop")]))
    with pytest.raises(AssertionError):  # the loop may not run
        verify_barriers(Steps([WRITE, Steps([None], "loop"), READ]))


def test_a_branch_may_not_run():
    with pytest.raises(AssertionError):
        verify_barriers(Steps([WRITE, Steps([None], "branch"), READ]))
    verify_barriers(Steps([Steps([WRITE, None, READ], "branch")]))
    with pytest.raises(AssertionError):
        verify_barriers(Steps([Steps([WRITE], "branch"), READ]))


@tk.kernel
def read_by_lanes(a: tk.array1d[float], b: tk.array1d[float]):
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=32)
    b[lane] = t[31 - lane] + t[0]
    tk.tile_store(b, t * t[1], offset=33)


def test_what_lanes_only_read_is_not_taken_as_written():
    """By the proof, which looks at what code is given: views that lanes make show memory, and write none."""
    given = [np.zeros(32, np.float32), np.zeros(65, np.float32)]
    assert tk.compile(read_by_lanes, args=given, dim=1, block_dim=32).barriers == 2
