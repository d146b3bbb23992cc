"""Work that compilers do, side by side."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tilekit.runtime.cpus import allowed_cpus

T = TypeVar("T")


def in_parallel(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """The results of jobs that compile, run on as many threads as there are CPUs, in order; one alone on this thread.

    The first error, in the order of the jobs, is raised once all are done.
    """
    if len(jobs) == 1:
        return [jobs[0]()]
    results: list[Any] = [None] * len(jobs)
    errors: dict[int, BaseException] = {}
    waiting = iter(list(enumerate(jobs)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number, job = next(waiting, (-1, None))
            if job is None:
                return
            try:
                results[number] = job()
            except BaseException as error:
                errors[number] = error

    # In the options in force here, which are those of a context.
    works = [functools.partial(contextvars.copy_context().run, work) for _ in range(min(len(jobs), allowed_cpus()))]
    threads = [threading.Thread(target=run, daemon=True) for run in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)  # a join without limit would answer Ctrl-C on some systems only
    if errors:
        raise errors[min(errors)]
    return results
