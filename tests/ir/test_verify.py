"""Malformed IR is refused, by the op's own rules where types alone do not tell."""

from __future__ import annotations

from typing import Any

import pytest

from tilekit.builtins.construct import tile_full
from tilekit.builtins.control import for_range, if_else, while_loop
from tilekit.builtins.mapping import map_elements
from tilekit.builtins.views import view_of
from tilekit.errors import VerificationError
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.core import Block, Const, Function, Op, Value, make_op
from tilekit.ir.types import ScalarType, TileType, bool_, float32, int32
from tilekit.ir.verify import verify
from tilekit.ir.views import ViewMap

INDEX, NUMBER, BOOL = ScalarType(int32), ScalarType(float32), ScalarType(bool_)
BOUNDS = {"start": Const(INDEX, 0), "stop": Const(INDEX, 4), "step": Const(INDEX, 1)}
ZERO, TRUE = Const(NUMBER, 0.0), Const(BOOL, True)


def loop(params: list[Any], yields: list[Any], **changed: Any) -> Op:
    block = Block(tuple(map(Value, params)), (), tuple(yields))
    return make_op(for_range, {**BOUNDS, "init": (ZERO,), **changed}, {}, (Value(NUMBER),), (block,))


def element(param: ScalarType) -> Op:
    tile = Value(TileType(float32, (4,)))
    taken = Value(param)
    return make_op(map_elements, {"args": (tile,)}, {}, (tile,), (Block((taken,), (), (taken,)),))


def view(offset: int) -> Op:
    operands = {"base": Value(TileType(float32, (8,))), "offset": Const(INDEX, offset)}
    return make_op(view_of, operands, {"map": ViewMap.identity((4,))}, (Value(TileType(float32, (4,))),))


def branch(*blocks: Block) -> Op:
    return make_op(if_else, {"test": TRUE}, {}, (Value(NUMBER),), blocks)


MALFORMED = [
    (loop([INDEX], [ZERO]), "for_range at None has a block of 0 parameters, not 1 in:"),
    (loop([INDEX, NUMBER], []), "for_range at None has a block that yields 0 values, not 1 in:"),
    (loop([INDEX, NUMBER], [TRUE]), "for_range at None carries one value as bool and f32 in:"),
    (
        loop([NUMBER, NUMBER], [ZERO]),
        "for_range at None is refused by its own rule (the index is an f32, but goes from i32 to i32 by i32) in:",
    ),
    (branch(Block((), (), (ZERO,)), Block((), (), (TRUE,))), "if_else at None carries one value as bool and f32 in:"),
    (branch(), "if_else at None owns 0 blocks in:"),
    (
        make_op(while_loop, {"test": TRUE, "init": ()}, {}, (), (Block((), (), (ZERO,)),)),
        "while_loop at None yields a condition that is no bool in:",
    ),
    (
        element(INDEX),
        "map_elements at None is refused by its own rule (its function takes elements of tile<4xf32> as i32) in:",
    ),
    (
        view(5),
        "view_of at None is refused by its own rule (view: a view [0 + [4] x [1]] reaches outside a tile<8xf32>)",
    ),
    (
        make_op(
            tile_full, {"value": ZERO}, {"shape": (2,), "dtype": float32, "storage": "register"}, (), (Block((), ()),)
        ),
        "tile_full at None owns blocks, but declares no region in:",
    ),
]


@pytest.mark.parametrize(
    ("op", "message"), MALFORMED, ids=[f"{i}_{op.builtin.name}" for i, (op, _) in enumerate(MALFORMED)]
)
def test_ops_check_what_types_do_not_tell(op: Op, message: str) -> None:
    with pytest.raises(VerificationError) as caught:
        verify(Function("f", {f"x{i}": value for i, value in enumerate(op.inputs())}, Block((), (op,))))
    assert caught.value.message.startswith(message)


def test_nothing_inside_an_op_escapes_the_verifier() -> None:
    """Also not what a product over K was before it became one op."""
    stray = make_op(REGISTRY["add"], {"a": Value(NUMBER), "b": ZERO}, {}, (Value(NUMBER),))
    inner = loop([INDEX, NUMBER], [ZERO])
    body = Block(inner.blocks[0].params, (stray,), (ZERO,))
    with pytest.raises(VerificationError, match=r"^add at None uses 1 value\(s\) that are not defined here"):
        verify(Function("f", {}, Block((), (inner.with_(blocks=(body,)),))))
