"""What the blocks of an op are to it, asked of ops as kernels record them."""

from __future__ import annotations

import tilekit as tk
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Block, Const, Op, Value, make_op, walk
from tilekit.ir.regions import arguments, captured, carried, counted, decides, keep_carried, next_conditions
from tilekit.ir.rewrite import Rewriter, replace_ops
from tilekit.ir.types import ScalarType, float32


@tk.kernel
def regions(a: tk.array2d[float], out: tk.array1d[float], n: int, factor: float):
    i = tk.tid()
    total, largest = 0.0, 0.0
    for k in range(n):
        x = a[i, k]
        total += x * factor
        if x > largest:
            largest = x
    while total > largest:
        total -= 1.0
    tk.tile_store(out, tk.tile_map(lambda x, y: x + y * factor, tk.tile_full(4, total), tk.tile_full(4, largest)), 0)


def traced() -> dict[str, Op]:
    ops = walk(regions.trace(regions.default_types(), LaunchForm()).body)
    return {op.builtin.name: op for op in ops if op.blocks}


def test_a_loop_tells_start_parameter_yield_and_result_of_what_it_carries() -> None:
    loop = traced()["for_range"]
    total, largest = carried(loop)
    (body,) = loop.blocks
    assert (total.result, largest.result) == loop.results
    assert counted(loop) == body.params[:1] and (total.param, largest.param) == body.params[1:]
    assert (*total.yielded, *largest.yielded) == body.results and next_conditions(loop) == ()
    assert isinstance(total.init, Const) and total.init.value == 0.0
    assert decides(loop) == tuple(loop.operands[name] for name in ("start", "stop", "step"))
    assert {value.hint for value in captured(loop)} == {"a", "factor", ""}


def test_a_branch_has_a_yield_from_each_side_and_a_while_loop_its_next_condition() -> None:
    found = traced()
    (chosen,) = carried(found["if_else"])
    assert chosen.init is None and chosen.param is None and len(chosen.yielded) == 2
    again = found["while_loop"]
    (total,) = carried(again)
    assert next_conditions(again) == again.blocks[0].results[:1] and total.yielded == again.blocks[0].results[1:]
    assert decides(again) == (again.operands["test"], *next_conditions(again))
    map = found["map_elements"]
    assert [sources for _, sources in arguments(map)] == [(arg,) for arg in map.operands["args"]]


def test_what_is_not_kept_goes_from_everywhere() -> None:
    loop = traced()["for_range"]
    kept = keep_carried(loop, {1})
    assert carried(kept) == carried(loop)[1:] and counted(kept) == counted(loop)


def test_a_rewriter_copies_beside_the_original_and_leaves_alone_what_does_not_change() -> None:
    body = regions.trace(regions.default_types(), LaunchForm()).body
    assert Rewriter().block(body) is body
    copy = Rewriter(fresh=True).block(body)
    assert [op.builtin for op in walk(copy)] == [op.builtin for op in walk(body)]
    assert {v for op in walk(copy) for v in op.results}.isdisjoint(v for op in walk(body) for v in op.results)
    assert copy.free == body.free

    number = ScalarType(float32)
    a, b, once, twice = (Value(number) for _ in range(4))
    first = make_op(REGISTRY["add"], {"a": a, "b": a}, {}, (once,))
    second = make_op(REGISTRY["add"], {"a": once, "b": b}, {}, (twice,))
    block = Block((a, b), (first, second), (twice,))
    assert replace_ops(block, {first: ()}).ops == (second,)
    swapped = Rewriter({once: a}, lambda op, rewriter: () if op is first else None).block(block)
    assert [op.operands["a"] for op in swapped.ops] == [a] and swapped.results == (twice,)
