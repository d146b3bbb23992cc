"""What a forked child finds."""

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

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


IMPORTING = """
import os, signal, sys, threading, time
import numpy as np
import tilekit as tk

@tk.kernel
def filled(out: tk.array1d[float]):
    out[tk.tid()] = 2.0

def launch():
    out = np.zeros(4, np.float32)
    tk.launch(filled, dim=4, outputs=[out], device="cpu")
    assert out.tolist() == [2.0] * 4

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            reached.set()
            time.sleep(0.5)

reached = threading.Event()
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=launch)
thread.start()
assert reached.wait(60), "not imported by a launch"
child = os.fork()
if not child:
    signal.alarm(60)
    launch()
    os._exit(0)
thread.join()
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("module", ["tilekit.passes.liveness", "tilekit.runtime.toolchain", "numpy.ma", "email.parser"])
def test_a_child_forked_while_another_thread_imports_what_launches_need(module, tmp_path):
    script = tmp_path / "importing.py"
    script.write_text(IMPORTING)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", script, module],
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[1],
        env={**os.environ, "TILEKIT_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (run.stdout, run.returncode) == ("0\n", 0), run.stderr
