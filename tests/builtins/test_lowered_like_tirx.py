"""The same kernel through TIRx and through tilekit: the same instructions and constants in the same order."""

from __future__ import annotations

import pytest

from tests.builtins.tirx_kernels import PAIRS, Pair, our_steps, their_steps


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_instructions_are_the_same(pair: Pair) -> None:
    theirs, ours = their_steps(pair), our_steps(pair)
    assert ours == theirs
    assert len(ours) > 2


def test_there_are_many_and_constants_are_seen() -> None:
    assert len(PAIRS) >= 25
    by_name = {pair.name: pair for pair in PAIRS}
    assert our_steps(by_name["fma.rn.f16x2-3x1"])[3] == ("fma.rn.f16x2", "", ((2, 0x40003C00), (3, 0)))
    assert their_steps(by_name["fma.rz.f32-2x3x1"])[6] == ("fma.rz.f32", "", ((2, 0x3DCCCCCD), (3, 0xBF000000)))
    assert [guard for _, guard, _ in our_steps(by_name["predicated-keep"])] == ["keep"] * 8 + ["guard"] * 4
