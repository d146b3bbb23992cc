"""Coordinates of blocks, and what kernels show and record, on the CPU by a call and on CUDA through a mailbox."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.native.cuda_driver import ONE_THREAD, THREADS

LAUNCH = np.dtype([("dim", "i8", 4), ("ndim", "i4"), ("block_dim", "i4"), ("report", "u8")])
MAILBOX = np.dtype([("error", "u1", 48), ("written", "u4"), ("capacity", "u4"), ("dropped", "u4"), ("unused", "u4")])
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
        const Shown shown[] = {{{{&x, 0, 8}}, {{tile + 3, -12, 20}}, {{odd, 0, 5}}}};
        report(*launch, 3, 7, shown);
        report(*launch, 4, -1);
    }}
}}
"""
Report = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_longlong, ctypes.POINTER(ctypes.c_void_p))


def test_the_cpu_calls_with_the_addresses(compiler: str, build: Any, call: Any) -> None:
    seen: list[Any] = []

    def report(site: int, block: int, values: Any) -> None:
        seen.append((site, block, [ctypes.string_at(values[i], 4) for i in range(3)] if site == 3 else []))

    tile, odd, callback = np.arange(5, dtype="f4"), np.arange(5, dtype="u1"), Report(report)
    launch = np.zeros(1, LAUNCH)
    launch["report"] = ctypes.cast(callback, ctypes.c_void_p).value
    call(build(SHOW, compiler, "-O1").show, launch, tile, odd)
    values = [np.int64(42).tobytes()[:4], tile[3:4].tobytes(), odd[:4].tobytes()]
    assert seen == [(3, 7, values), (4, -1, [])]


@pytest.mark.gpu
@pytest.mark.parametrize("capacity", [4096, 48])
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
        last = [*_words(4, 0), -1]
        want = first + last if capacity == 4096 else last
        assert box["written"][0] == 8 * len(want)
        assert box["dropped"][0] == (capacity == 48)
        records = memory[MAILBOX.itemsize :].view("i8")
        assert records[: len(want)].tolist() == want
        assert not records[len(want) :].any()


def _words(low: int, high: int) -> list[int]:
    return np.array([low, high], "i4").view("i8").tolist()  # type: ignore[no-any-return]


def _padded(a: Any) -> list[int]:
    return np.frombuffer(a.tobytes() + bytes(-a.nbytes % 8), "i8").tolist()  # type: ignore[no-any-return]


@pytest.mark.gpu
def test_cuda_counts_what_many_blocks_post(build: Any) -> None:
    code = '#include "mailbox.h"\nusing namespace tk;\n'
    code += "TK_API void run(const Launch* launch) { const i32 rank = threadIdx.x; const Shown s[] = {{&rank, 0, 4}}; "
    code += "report(*launch, 1, blockIdx.x, s); record((Error*)launch->report, kIndexError, 5, blockIdx.x, rank, "
    code += "0, 0, 2, rank); }"
    blocks, room = 20, 1000
    library = build(code, "cuda")
    with library.mapped(MAILBOX.itemsize + 24 * room) as (memory, address):
        box = memory[: MAILBOX.itemsize].view(MAILBOX)
        box["capacity"] = 24 * room
        launch = np.zeros(1, LAUNCH)
        launch["report"] = address
        library.run(launch, blocks=blocks)
        assert (box["written"][0], box["dropped"][0]) == (24 * room, blocks * THREADS - room)
        records = memory[MAILBOX.itemsize :].view("i4").reshape(room, 6)
        assert (records[:, [0, 1]] == [1, 8]).all()
        assert len({(block, rank) for block, rank in records[:, [2, 4]].tolist()}) == room
        error = memory[:48].view("i4")
        assert error[[0, 1, 9, 11]].tolist() == [1, 5, 2, 1]
        assert (error[2], error[4]) == (error[2], error[10])
