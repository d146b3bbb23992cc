"""Runs the blocks of a CPU kernel on all cores. The kernel is called through ctypes, which lets the GIL go."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from tilekit.config import config
from tilekit.runtime.cpus import allowed_cpus

BlockFunction = Callable[[int, int, int], object]
"""``fn(begin, end, worker)`` runs the blocks ``begin <= block < end``."""

# Waking the pool costs some 60 us: less work than SMALL stays on the calling thread.
_SMALL = 200_000
_TINY = 20_000
"""Nanoseconds of work below which not even the clock is read."""
_CHUNK = 20_000_000
"""Nanoseconds that a chunk takes at most, one block apart: between chunks Ctrl-C is answered."""

_local = threading.local()


def thread_count() -> int:
    """Threads that run a kernel: ``config.num_threads``, else as many as affinity and cgroup quota allow."""
    return config.num_threads or allowed_cpus()


def run_blocks(
    fn: BlockFunction,
    blocks: int,
    threads: int | None = None,
    serial: bool = False,
    work: int | None = None,
    halt: Callable[[], object] = lambda: None,
) -> None:
    """Call ``fn(begin, end, worker)`` for ranges that together are ``range(blocks)``, each block once.

    ``worker`` is in ``range(threads)`` and no two calls of ``fn`` that run at once for this launch have the same: it
    may pick scratch memory. Without ``threads`` it is :func:`thread_count`. ``serial`` runs the blocks in order on the
    calling thread. ``work`` estimates the nanoseconds that all blocks take together; without it, or where it says
    little, the calling thread begins alone and measures. The first exception of any call is raised, once no other
    call runs any more. Called from inside ``fn`` it runs on that thread, as worker 0.
    ``halt()`` is called where Ctrl-C ends the launch: it lets calls of ``fn`` that are under way return.

    Example:
        >>> done = []
        >>> run_blocks(lambda begin, end, worker: done.extend(range(begin, end)), 5, serial=True)
        >>> done
        [0, 1, 2, 3, 4]
    """
    if blocks <= 0:
        return
    if blocks == 1 or (work is not None and work <= _TINY):
        fn(0, blocks, 0)
        return
    count = min(threads or thread_count(), blocks)
    if serial or count <= 1 or getattr(_local, "inside", False):
        _run_alone(fn, blocks, None)
        return
    begin, cost = 0, (work or 0) / blocks
    if cost == 0 or cost * blocks <= _SMALL:
        begin, cost = _run_alone(fn, blocks, _SMALL)
    if begin < blocks:
        _run_shared(_Job(fn, begin, blocks, count, max(1, int(_SMALL / cost)), halt))


def _run_alone(fn: BlockFunction, blocks: int, budget: int | None) -> tuple[int, float]:
    """Run blocks in order until none is left or ``budget`` ns have passed: the next block, and ns a block took."""
    clock = time.perf_counter_ns
    start = now = clock()
    begin, size = 0, 1
    limit = _CHUNK if budget is None else budget
    while begin < blocks:
        end = min(begin + size, blocks)
        fn(begin, end, 0)
        begin, before, now = end, now, clock()
        if budget is not None and now - start > budget:
            break
        # Chunks double while they are short; a slow one halves what follows.
        size = size * 2 if now - before < limit // 4 else max(1, size // 2 if now - before > limit else size)
    return begin, (now - start + 1) / begin


def _run_shared(job: _Job) -> None:
    _pool().submit(job, min(job.count, job.blocks - job.begin) - 1)
    job.lead()


class _Job:
    """One launch: the calling thread leads, and helpers join while blocks are left."""

    def __init__(
        self, fn: BlockFunction, begin: int, blocks: int, count: int, size: int, halt: Callable[[], object]
    ) -> None:
        self.fn = fn
        self.begin = begin
        self.blocks = blocks
        self.count = count
        self.size = size
        self.halt = halt
        self.workers = itertools.count(1)
        self.lock = threading.Lock()
        self.running = 0
        self.closed = False
        self.stop = False
        self.idle = threading.Event()
        self.error: BaseException | None = None

    def take(self, size: int) -> tuple[int, int]:
        """The next chunk: at most ``size`` blocks, fewer towards the end so that all threads end together."""
        with self.lock:
            left = self.blocks - self.begin
            begin = self.begin
            self.begin += min(left, size, max(1, left // (2 * self.count)))
            return begin, self.begin

    def drain(self, worker: int) -> None:
        fn, size, clock = self.fn, self.size, time.perf_counter_ns
        _local.inside = True
        try:
            while not self.stop:
                begin, end = self.take(size)
                if begin == end:
                    break
                before = clock()
                fn(begin, end, worker)
                # The estimate may be far off: what was measured decides.
                took = (clock() - before) // (end - begin) + 1
                size = max(1, min(2 * size, _CHUNK // took))
        except BaseException:
            self.stop = True
            raise
        finally:
            _local.inside = False

    def lead(self) -> None:
        """The calling thread's part. Returns or raises only when no helper is in ``fn`` any more."""
        try:
            self.drain(0)
        except BaseException:
            self.halt()
            raise
        finally:
            self._finish()
        if self.error is not None:
            raise self.error

    def help(self) -> None:
        """A helper's part; too late to help, it does nothing."""
        with self.lock:
            if self.closed or self.stop:
                return
            self.running += 1
            worker = next(self.workers)
        try:
            self.drain(worker)
        except BaseException as error:
            self.error = self.error or error
        finally:
            with self.lock:
                self.running -= 1
                if self.closed and not self.running:
                    self.idle.set()

    def _finish(self) -> None:
        interrupt: BaseException | None = None
        with self.lock:
            self.closed = True
            if not self.running:
                self.idle.set()
        # Helpers use the caller's arrays: not even Ctrl-C may leave them behind.
        while not self.idle.is_set():
            try:
                self.idle.wait()
            except BaseException as error:  # what the program's handlers of signals raise
                interrupt = error
                self.stop = True
                self.halt()
        if interrupt is not None:
            raise interrupt


class _Pool:
    """Helper threads, started when first needed, that wait for jobs."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()

    def submit(self, job: _Job, helpers: int) -> None:
        if len(self.threads) < helpers:
            self._start(helpers)
        for _ in range(min(helpers, len(self.threads))):
            self.jobs.put(job)

    def _start(self, helpers: int) -> None:
        with self.lock:
            while len(self.threads) < helpers:
                number = len(self.threads) + 1
                thread = threading.Thread(target=self._serve, name=f"tilekit-{number}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads allowed, or the interpreter ends: fewer do as well
                    return
                self.threads.append(thread)

    def _serve(self) -> None:
        jobs = self.jobs
        while (job := jobs.get()) is not None:
            job.help()
            del job  # or its arrays live until the next launch

    def shut_down(self) -> None:
        for _ in self.threads:
            self.jobs.put(None)
        for thread in self.threads:
            thread.join(timeout=1.0)
        self.threads.clear()


_current: _Pool | None = None
_current_lock = threading.Lock()


def _pool() -> _Pool:
    """This process's pool: made on first use, and anew in a forked child, where threads do not follow."""
    global _current
    pool = _current
    if pool is None or pool.owner != os.getpid():
        with _current_lock:
            if _current is None or _current.owner != os.getpid():
                _current = _Pool()
            pool = _current
    return pool


def _after_fork() -> None:
    global _current, _current_lock
    _current = None
    _current_lock = threading.Lock()
    _local.inside = False


@atexit.register
def shut_down() -> None:
    """End the helper threads; the next launch starts new ones."""
    global _current
    pool, _current = _current, None
    if pool is not None and pool.owner == os.getpid():
        pool.shut_down()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
