"""Jobs side by side."""

from __future__ import annotations

import threading

import pytest

from tilekit.runtime import parallel
from tilekit.runtime.parallel import in_parallel


def test_jobs_run_at_once_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "allowed_cpus", lambda: 2)
    meeting = threading.Barrier(2, timeout=20)

    def job(number: int) -> int:
        meeting.wait()
        return number

    assert in_parallel([lambda n=number: job(n) for number in range(4)]) == [0, 1, 2, 3]
    assert in_parallel([]) == []


def test_the_first_job_that_fails_is_raised() -> None:
    done: list[int] = []

    def job(number: int) -> None:
        if number in (1, 2):
            raise ValueError(number)
        done.append(number)

    with pytest.raises(ValueError, match="1"):
        in_parallel([lambda n=number: job(n) for number in range(5)])
    assert sorted(done) == [0, 3, 4]
