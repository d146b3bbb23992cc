"""What a forked child finds."""

import multiprocessing
import os
import threading

import numpy as np
import pytest

import tilekit as tk
from tilekit.forks import Lock
from tilekit.runtime import toolchain


@tk.kernel
def filled(out: tk.array1d[float]):
    out[tk.tid()] = 2.0


def _launch(queue):
    out = np.zeros(4, np.float32)
    tk.launch(filled, dim=4, outputs=[out])
    queue.put(out.tolist())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("lock", [filled.lock, toolchain._lock, Lock()])
def test_a_child_forked_while_another_thread_compiles(lock):
    held, release = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_launch, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=60) == [2.0] * 4
    finally:
        release.set()
        thread.join()
        child.kill()
        child.join(10)
