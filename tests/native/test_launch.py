"""Coordinates of blocks, and what kernels on a GPU show and record through their mailbox."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.cuda_driver import ONE_THREAD, THREADS

LAUNCH = np.dtype([("dim", "i8", 4), ("ndim", "i4"), ("block_dim", "i4"), ("report", "u8")])
MAILBOX = np.dtype([("error", "u1", 48), ("written", "u4"), ("capacity", "u4"), ("lost", "u4"), ("unused", "u4")])
GRIDS = [(7,), (3, 5), (2, 3, 4), (2, 3, 4, 5), (2**31, 3), (3, 2**33), (1, 2**40, 1)]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_coordinates(grid: tuple[int, ...], device_compiler: str, build: Any, call: Any) -> None:
    n = len(grid)
    code = f"""
#include "launch.h"
using namespace tk;
{ONE_THREAD}
TK_API void run(const Launch* launch, i64 block, i32* all, i32* each)
{{
    ONE_THREAD {{
        i32 c[{n}];
        coordinates<{n}>(*launch, block, c);
        for (int i = 0; i < {n}; ++i) {{
            all[i] = c[i];
            each[i] = (i32)coordinate(*launch, block, i);
        }}
    }}
}}
"""
    lib = build(code, device_compiler, "-O1")
    launch = np.zeros(1, LAUNCH)
    launch["dim"], launch["ndim"] = [*grid, *(1,) * (4 - n)], n
    total = int(np.prod(grid, dtype=object))
    for block in {0, 1, min(5, total - 1), total // 2, total - 1}:
        every, each = np.empty(n, "i4"), np.empty(n, "i4")
        call(lib.run, launch, block, every, each)
        want = np.array([int(v) for v in np.unravel_index(block, grid)]).astype("i4")
        np.testing.assert_array_equal(every, want)
        np.testing.assert_array_equal(each, want)


SHOW = f"""
#include "mailbox.h"
using namespace tk;
{ONE_THREAD}
TK_API void show(const Launch* launch, const f32* tile, const u8* odd)
{{
    ONE_THREAD {{
        const i64 x = 42;
        const Piece pieces[] = {{{{(const char*)&x, 8}}, {{(const char*)tile, 20}}, {{(const char*)odd, 5}}}};
        post(*launch, 3, 7, pieces, 3);
        post(*launch, 4, -1, pieces, 1);
    }}
}}
"""


@pytest.mark.gpu
@pytest.mark.parametrize("capacity", [4096, 40])
def test_cuda_writes_records(capacity: int, build: Any) -> None:
    library = build(SHOW, "cuda")
    with library.mapped(MAILBOX.itemsize + capacity) as (memory, address):
        box = memory[: MAILBOX.itemsize].view(MAILBOX)
        box["capacity"] = capacity
        launch = np.zeros(1, LAUNCH)
        launch["report"] = address
        tile, odd = np.arange(5, dtype="f4"), np.arange(5, dtype="u1")
        library.show(launch, tile, odd)
        first = [*_words(3, 40), 7, 42, *_padded(tile), *_padded(odd)]
        last = [*_words(4, 8), -1, 42]
        fits = capacity == 4096
        records = memory[MAILBOX.itemsize :].view("i8").tolist()
        if fits:
            assert records[: len(first + last)] == first + last
            assert not any(records[len(first + last) :])
        else:  # of what does not fit there is only the end
            assert records[0] & 0xFFFFFFFF == 0xFFFFFFFF
            assert not any(records[1:])
        assert box["lost"][0] == 2 * (not fits)


def _words(low: int, high: int) -> list[int]:
    return np.array([low, high], "i4").view("i8").tolist()  # type: ignore[no-any-return]


def _padded(a: Any) -> list[int]:
    return np.frombuffer(a.tobytes() + bytes(-a.nbytes % 8), "i8").tolist()  # type: ignore[no-any-return]


@pytest.mark.gpu
def test_cuda_counts_what_many_blocks_post(build: Any) -> None:
    code = '#include "mailbox.h"\nusing namespace tk;\n'
    code += "TK_API void run(const Launch* launch) { const i32 rank = threadIdx.x; "
    code += "const Piece pieces[] = {{(const char*)&rank, 4}}; post(*launch, 1, blockIdx.x, pieces, 1); "
    code += "record(error_of(*launch), kIndexError, 5, blockIdx.x, rank, 0, 0, 2, rank); }"
    blocks, room = 20, 1000
    library = build(code, "cuda")
    with library.mapped(MAILBOX.itemsize + 24 * room) as (memory, address):
        box = memory[: MAILBOX.itemsize].view(MAILBOX)
        box["capacity"] = 24 * room
        launch = np.zeros(1, LAUNCH)
        launch["report"] = address
        library.run(launch, blocks=blocks)
        assert box["lost"][0] == blocks * THREADS - room
        assert 24 * room <= box["written"][0] <= 24 * blocks * THREADS
        records = memory[MAILBOX.itemsize :].view("i4").reshape(room, 6)
        assert (records[:, :2] == [1, 8]).all()
        assert len({(block, rank) for block, rank in records[:, [2, 4]].tolist()}) == room
        error = memory[:48].view("i4")
        assert error[[0, 1, 9, 11]].tolist() == [1, 5, 2, 1]
        assert error[4] == error[10]
