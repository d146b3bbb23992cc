"""Many threads compile kernels at once."""

import sys
import threading

import numpy as np

import tilekit as tk


def sixteen_more(x, steps):
    return x if steps == 0 else sixteen_more(x + 1.0, steps - 1)


def made(number):
    @tk.kernel
    def shared(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_full(shape=2, value=sixteen_more(float(number), 16)))

    return shared


def test_threads_that_share_helpers_do_not_disturb_each_other():
    threads, failures, results = 16, [], {}
    ready = threading.Barrier(threads)

    def work(number):
        kernel = made(number)
        form = tk.ir.context.LaunchForm(True, 1, 32)
        ready.wait()
        try:
            for _ in range(20):
                kernel.trace(kernel.default_types(), form)
            out = np.zeros(2, np.float32)
            tk.launch_tiled(kernel, dim=1, outputs=[out], device="interpret")
            results[number] = out.tolist()
        except Exception as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert results == {number: [number + 16.0] * 2 for number in range(threads)}
