from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.timing import allowed
from tilekit.config import config
from tilekit.runtime import cpus, pool
from tilekit.runtime.pool import run_blocks

BIG = 10**9


def ranges(blocks: int, **options: object) -> list[tuple[int, int, int]]:
    calls: list[tuple[int, int, int]] = []
    run_blocks(lambda begin, end, worker: calls.append((begin, end, worker)), blocks, **options)  # type: ignore[arg-type]
    return calls


@pytest.mark.parametrize("blocks", [0, 1, 2, 7, 100, 10_007])
@pytest.mark.parametrize("threads", [None, 1, 2, 5])
@pytest.mark.parametrize("work", [None, 1, 10**5, BIG])
@pytest.mark.parametrize("serial", [False, True])
def test_every_block_runs_once(blocks: int, threads: int | None, work: int | None, serial: bool) -> None:
    calls = ranges(blocks, threads=threads, work=work, serial=serial)
    assert Counter(b for begin, end, _ in calls for b in range(begin, end)) == Counter(range(blocks))
    assert all(begin < end and 0 <= worker < (threads or pool.thread_count()) for begin, end, worker in calls)
    if serial or threads == 1:
        assert calls == sorted(calls) and {worker for *_, worker in calls} <= {0}


def test_small_work_is_one_call_on_this_thread() -> None:
    assert ranges(100, threads=4, work=1000) == [(0, 100, 0)]


def test_small_work_without_an_estimate_stays_on_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()  # on a busy machine the least piece of work may take long
    monkeypatch.setattr(pool, "time", SimpleNamespace(perf_counter_ns=lambda: next(clock)))
    seen = set()
    run_blocks(lambda *_: seen.add(threading.get_ident()), 16, threads=4)
    assert seen == {threading.get_ident()}


@pytest.mark.parametrize("work", [None, 1000 * 10**5, 10**5])
def test_long_work_is_shared_whatever_the_estimate(work: int | None) -> None:
    seen = set()
    all_here = threading.Event()

    def sleep(begin: int, end: int, worker: int) -> None:
        seen.add(threading.get_ident())
        if len(seen) == 4:
            all_here.set()
        time.sleep(0.002 * (end - begin))
        assert begin < 50 or all_here.wait(20)  # a busy machine may start a thread late

    run_blocks(sleep, 100, threads=4, work=work)
    assert len(seen) == 4


def test_workers_are_distinct_while_they_run() -> None:
    busy: set[int] = set()
    lock = threading.Lock()
    clashes = []

    def body(begin: int, end: int, worker: int) -> None:
        with lock:
            if worker in busy:
                clashes.append(worker)
            busy.add(worker)
        time.sleep(0.0005)
        with lock:
            busy.discard(worker)

    run_blocks(body, 200, threads=6, work=BIG)
    assert not clashes


def test_ctypes_functions_run_at_the_same_time() -> None:
    usleep = ctypes.CDLL(None).usleep if os.name == "posix" else pytest.skip("needs usleep")
    start = time.perf_counter()
    run_blocks(lambda begin, end, worker: usleep(100_000 * (end - begin)), 16, threads=4, work=BIG)
    assert time.perf_counter() - start < 1.2  # 1.6 one after the other


@pytest.mark.parametrize("threads", [1, 4])
def test_an_exception_ends_the_launch(threads: int) -> None:
    calls = []

    def body(begin: int, end: int, worker: int) -> None:
        calls.append(begin)
        time.sleep(0.001)
        if begin <= 20 < end:
            raise ValueError("block 20")

    with pytest.raises(ValueError, match="block 20"):
        run_blocks(body, 10_000, threads=threads, work=10**12)
    count = len(calls)
    assert count < 1000
    time.sleep(0.02)
    assert len(calls) == count
    assert len(ranges(50, threads=threads, work=BIG)) > 1


def test_nested_launches_run_inline() -> None:
    threads = []

    def outer(begin: int, end: int, worker: int) -> None:
        me = threading.get_ident()
        time.sleep(0.001)
        run_blocks(lambda b, e, w: threads.append((me, threading.get_ident(), w)), 20, threads=4, work=BIG)

    run_blocks(outer, 20, threads=3, work=BIG)
    assert threads and all(mine == theirs and worker == 0 for mine, theirs, worker in threads)


def test_many_python_threads_launch_at_once() -> None:
    results: list[int] = []

    def launch() -> None:
        for _ in range(20):
            done: list[int] = []
            run_blocks(lambda b, e, w: done.extend(range(b, e)), 64, threads=4, work=BIG)  # noqa: B023
            results.append(len(set(done)))

    launchers = [threading.Thread(target=launch) for _ in range(6)]
    for thread in launchers:
        thread.start()
    for thread in launchers:
        thread.join(timeout=30)
    assert results == [64] * 120


def _child(queue: multiprocessing.queues.Queue) -> None:  # type: ignore[type-arg]
    seen = set()
    all_here = threading.Event()

    def body(begin: int, end: int, worker: int) -> None:
        seen.add(worker)
        if len(seen) == 3:
            all_here.set()
        time.sleep(0.005)
        assert begin < 8 or all_here.wait(15)

    run_blocks(body, 16, threads=3, work=BIG)
    queue.put(len(seen))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_makes_its_own_pool() -> None:
    ranges(100, threads=3, work=BIG)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert queue.get(timeout=20) == 3
    child.join(timeout=10)
    assert child.exitcode == 0


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("options", ["serial=True", "threads=4, work=10**12", "threads=4"])
def test_ctrl_c_is_answered(options: str) -> None:
    code = (
        "import ctypes, time; from tilekit.runtime.pool import run_blocks; usleep = ctypes.CDLL(None).usleep\n"
        "print('started', flush=True)\n"
        f"run_blocks(lambda b, e, w: usleep(2000 * (e - b)), 1_000_000, {options})\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.3)
    start = time.perf_counter()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert time.perf_counter() - start < allowed(1)
    assert b"KeyboardInterrupt" in errors


def test_the_process_ends_with_the_pool_idle() -> None:
    code = "from tilekit.runtime.pool import run_blocks; run_blocks(lambda *_: None, 50, threads=4, work=10**9)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)


def test_shut_down_and_start_again() -> None:
    ranges(50, threads=3, work=BIG)
    pool.shut_down()
    assert sum(end - begin for begin, end, _ in ranges(50, threads=3, work=BIG)) == 50


def test_too_few_threads_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    pool.shut_down()

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert sum(end - begin for begin, end, _ in ranges(50, threads=3, work=BIG)) == 50


def test_thread_count_follows_the_option() -> None:
    with config.scoped(num_threads=3):
        assert pool.thread_count() == 3
    assert 1 <= cpus.allowed_cpus() <= (os.cpu_count() or 1)


def _files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/cpu.max": "400000 100000\n",
            },
            4.0,
        ),
        ({"proc/self/cgroup": "0::/on/the/host\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2.0),
        (
            {
                "proc/self/cgroup": "3:memory:/m\n2:cpu,cpuacct:/c\n",
                "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "2:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
    ],
)
def test_cgroup_quota(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    assert cpus.cgroup_quota(_files(tmp_path, files)) == quota


def test_a_quota_limits_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "cgroup_quota", lambda: 0.5)
    monkeypatch.setattr(sys, "platform", "linux")
    cpus.allowed_cpus.cache_clear()
    assert cpus.allowed_cpus() == 1
    cpus.allowed_cpus.cache_clear()
