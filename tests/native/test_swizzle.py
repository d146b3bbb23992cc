"""What lanes read together from shared memory lies in different banks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

PITCHES = [16, 32, 48, 64, 96, 128, 160, 192, 208, 256, 384, 512]
ACCESSES = ("kMatrices", "kElements", "kRuns")


def place_source() -> str:
    lines = ['#include "swizzle.h"\nusing namespace tk;\n']
    for how in ACCESSES:
        for pitch in PITCHES:
            lines.append(f"""TK_API void {how}_{pitch}(i64* out) {{
    typedef PlaceOf<f32, {pitch}, true, {how}>::type P;
    out[0] = P::period;
    for (int r = 0; r < 64; ++r) for (int b = 0; b < {pitch}; ++b) out[1 + r * {pitch} + b] = P::offset(r, b);
}}
TK_API void moved_{how}_{pitch}(i64* wrong) {{
    typedef PlaceOf<f32, {pitch}, true, {how}>::type P;
    for (int r = 0; r < 64; ++r) for (int b = 0; b < {pitch}; b += 4)
        for (int row = 0; row < 64; ++row) for (int byte = 0; b + byte < {pitch}; byte += 4)
            if (!(r & row) && !(b & byte))
                wrong[0] += P::offset(r + row, b + byte) !=
                    (P::offset(r, b) ^ P::turn(row, byte)) + P::further(row, byte);
}}
""")
    return "".join(lines)


@pytest.fixture
def places(compilers: Any, build: Any, call: Any) -> Any:
    library = build(place_source(), next(iter(compilers)), "-O1")

    def find(how: str, pitch: int) -> Any:
        out = np.zeros(1 + 64 * pitch, "i8")
        call(library[f"{how}_{pitch}"], out)
        return int(out[0]), out[1:].reshape(64, pitch)

    find.library = library  # type: ignore[attr-defined]
    return find


@pytest.mark.parametrize("pitch", PITCHES)
@pytest.mark.parametrize("how", ACCESSES)
def test_an_offset_is_that_of_a_start_and_a_distance(how: str, pitch: int, places: Any, call: Any) -> None:
    wrong = np.zeros(1, "i8")
    call(places.library[f"moved_{how}_{pitch}"], wrong)
    assert not wrong[0]


@pytest.mark.parametrize("pitch", PITCHES)
@pytest.mark.parametrize("how", ACCESSES)
def test_rows_keep_their_bytes_and_packs_together(how: str, pitch: int, places: Any) -> None:
    period, offset = places(how, pitch)
    assert sorted(offset.reshape(-1)) == list(range(64 * pitch))
    packs = offset.reshape(64, pitch // 16, 16)
    assert (packs == packs[..., :1] + np.arange(16)).all() and (packs[..., 0] % 16 == 0).all()
    again = offset[period:] - offset[:-period]
    assert (again == period * pitch).all()


def different(offsets: Any, width: int) -> bool:
    """Whether reads of ``width`` bytes meet no bank twice."""
    banks = (offsets[..., None] // 4 + np.arange(width // 4)) % 32
    return len(set(banks.reshape(-1).tolist())) == banks.size


@pytest.mark.parametrize("pitch", PITCHES)
def test_matrices_meet_every_bank_once(pitch: int, places: Any) -> None:
    _, offset = places("kMatrices", pitch)
    assert all(different(offset[r : r + 8, b], 16) for r in range(0, 64, 8) for b in range(0, pitch, 16))


@pytest.mark.parametrize("pitch", [p for p in PITCHES if p % 32 == 0])
def test_elements_of_four_rows_meet_every_bank_once(pitch: int, places: Any) -> None:
    _, offset = places("kElements", pitch)
    for first in range(0, 64, 4):
        rows = offset[first : first + 4]
        for b in range(0, pitch, 32):
            assert different(rows[:, b : b + 32 : 4].reshape(-1), 4)  # 32 lanes, floats
            assert different(rows[:, b : b + 32 : 8].reshape(-1), 8)  # 16 lanes, doubles


@pytest.mark.parametrize("pitch", [128, 256, 384, 512])
def test_every_fourth_row_is_in_other_banks(pitch: int, places: Any) -> None:
    _, offset = places("kRuns", pitch)
    assert all(different(offset[i : i + 32 : 4, b], 16) for i in (0, 1, 2, 3, 32) for b in range(0, pitch, 16))
