"""The lanes of a block in the interpreter: each runs the kernel in a thread of its own, one at a time.

Lanes take turns in order. One runs until it reaches something that all lanes do together, or an element of a tile that
another lane may have written; then the next runs to the same place. The last to arrive does what is done together,
once, and all get its result: so they share tiles. Between two such places a lane runs undisturbed.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from tilekit.errors import KernelValueError, Location
from tilekit.frontend.eager import Running
from tilekit.frontend.source import called_by_kernel, locate
from tilekit.ir.builtin import Builtin
from tilekit.ir.context import Concrete
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.operands import known_number, operand_of


class Stopped(BaseException):
    """Ends the other lanes when one has failed."""


@dataclass
class Arrival:
    """Where a lane waits for the others, and what is to be done there."""

    what: str
    place: Location | None
    run: Callable[[list[Arrival]], Any] | None = None
    given: dict[str, Any] | None = None
    """The arguments of a builtin, some of which differ between lanes."""

    def same(self, other: Arrival) -> bool:
        return (self.what, self.place) == (other.what, other.place)

    def __str__(self) -> str:
        if self.what == "end":
            return "has ended"
        where = f" at line {self.place.line}" if self.place is not None else ""
        return f"has reached {self.what}{where}"


class Turns:
    """Runs ``body(lane)`` for each lane of a block."""

    def __init__(self, lanes: int, body: Callable[[int, Turns], None]) -> None:
        self.lanes = lanes
        self.body = body
        self.arrivals: list[Arrival] = []
        self.outcome: Any = None
        self.error: BaseException | None = None
        self.failed: int | None = None
        """The lane whose own code failed."""
        # Not semaphores: those are Python code, and Ctrl-C inside them can leave their locks held.
        self._turn: list[SimpleQueue[None]] = [SimpleQueue() for _ in range(lanes)]
        self._done: SimpleQueue[None] = SimpleQueue()
        self._threads: dict[int, threading.Thread] = {}
        self.busy = False
        """Whether an operation is being done: what it calls is part of it."""
        self._running = 0
        self._shared = False
        """Whether what runs now is done for all lanes, so that no lane is to blame."""
        self._tracer: Any = None

    def run(self) -> None:
        """Run all lanes to their end; the first one in the calling thread.

        Raises:
            whatever a lane raises; ``failed`` is its number.
        """
        try:
            self._lane(0)
            _wait_for(self._done)
        except KeyboardInterrupt as error:  # while the others ran
            self._fail(error, None)
        finally:
            for thread in self._threads.values():
                if thread.is_alive():  # one whose start was interrupted is not
                    thread.join()
        if self.error is not None:
            raise self.error

    def meet(self, lane: int, arrival: Arrival) -> Any:
        """Wait until all lanes are here; the result of what they do together."""
        self.arrivals.append(arrival)
        if lane == self.lanes - 1:
            self._together()
        self._wake((lane + 1) % self.lanes)
        self._sleep(lane)
        return self.outcome

    def _together(self) -> None:
        """All have arrived: do once what is to be done."""
        arrivals, self.arrivals = self.arrivals, []
        first = arrivals[0]
        self._shared = True
        for lane, arrival in enumerate(arrivals):
            if not arrival.same(first):
                raise KernelValueError(
                    f"lane 0 {first}, but lane {lane} {arrival}; what all lanes of a block do together must stand "
                    "where all of them come",
                    arrival.place or first.place,
                )
        self.outcome = first.run(arrivals) if first.run is not None else None
        self._shared = False

    # Threads.

    def _lane(self, lane: int) -> None:
        try:
            self._begin(lane)
            self.body(lane, self)
            self.arrivals.append(Arrival("end", None))
            if lane == self.lanes - 1:
                self._together()
                self._done.put(None)
            else:
                self._wake(lane + 1)
        except Stopped:
            pass
        except BaseException as error:
            self._fail(error, None if self._shared else lane)

    def _wake(self, lane: int) -> None:
        self._tracer = sys.gettrace()
        if lane in self._threads or lane == 0:
            self._turn[lane].put(None)
            return
        context = contextvars.copy_context()
        self._threads[lane] = threading.Thread(target=context.run, args=(self._start, lane), daemon=True)
        self._threads[lane].start()

    def _start(self, lane: int) -> None:
        sys.settrace(self._tracer)  # so that breakpoints work in every lane
        self._lane(lane)

    def _sleep(self, lane: int) -> None:
        _wait_for(self._turn[lane])
        self._begin(lane)

    def _begin(self, lane: int) -> None:
        """Go on, if none has failed: said before it is asked, since :meth:`_fail` fails before it asks who runs."""
        self._running = lane
        if self.error is not None:
            raise Stopped

    def _fail(self, error: BaseException, lane: int | None) -> None:
        """Keep the first error and end every lane."""
        if self.error is None:
            self.error, self.failed = error, lane
        running = self._threads.get(self._running)  # before the others are woken: each then says that it runs
        for turn in self._turn:
            turn.put(None)
        self._done.put(None)
        if isinstance(error, KeyboardInterrupt) and running not in (None, threading.current_thread()):
            assert running is not None and running.ident is not None
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(running.ident), ctypes.py_object(Stopped))


def _wait_for(queue: SimpleQueue[None]) -> None:
    """Wait until something is put. The main thread looks up at times: Ctrl-C just before it waits does not wake it."""
    while True:
        with contextlib.suppress(Empty):
            return queue.get(timeout=0.5 if threading.current_thread() is threading.main_thread() else None)


class Member:
    """One lane, as calls of builtins see it."""

    def __init__(self, turns: Turns, lane: int, support: Running) -> None:
        self.turns = turns
        self.lane = lane
        self.support = support
        support.step = self.step

    def call(self, builtin: Builtin, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a builtin: together with the other lanes, or alone."""
        if self.turns.busy or not called_by_kernel():
            return builtin.call(args, kwargs)
        tiles = _holds_tile((*args, *kwargs.values()))
        if builtin.cooperative or (tiles and builtin.elementwise):
            given = builtin.bind(args, kwargs)
            return self._meet(builtin.spelled, lambda all: builtin.call((), _merged(builtin, all)), given)
        if tiles and not self.support.apart:
            self.step(builtin.spelled)
        return self._alone(lambda: builtin.call(args, kwargs))

    def step(self, what: str) -> None:
        """Wait for the other lanes, to go on by itself."""
        self.turns.meet(self.lane, Arrival(what, locate()))

    def together(self, run: Callable[[], Any], what: str) -> Any:
        """Do something once for all lanes."""
        alone = self.turns.busy or not called_by_kernel()
        return run() if alone else self._meet(what, lambda all: run(), None)

    def agreed(self, run: Callable[[], Any], key: object) -> Any:
        """What a lane's name is bound to: one tile for all lanes, unless views differ between them."""
        if self.support.apart or self.turns.busy or not called_by_kernel():
            return run()
        given = {"run": run, "key": key}
        return self._meet("an assignment of a tile", _one_a_key, given)[self.lane]

    def _meet(self, what: str, run: Callable[[list[Arrival]], Any], given: dict[str, Any] | None) -> Any:
        return self.turns.meet(self.lane, Arrival(what, locate(), lambda all: self._alone(lambda: run(all)), given))

    def _alone(self, run: Callable[[], Any]) -> Any:
        self.turns.busy = True
        try:
            return run()
        finally:
            self.turns.busy = False


def _one_a_key(arrivals: list[Arrival]) -> list[Any]:
    """For each lane the result of the first one with its key."""
    found: dict[object, Any] = {}
    for arrival in arrivals:
        assert arrival.given is not None
        if arrival.given["key"] not in found:
            found[arrival.given["key"]] = arrival.given["run"]()
    return [found[arrival.given["key"]] for arrival in arrivals if arrival.given is not None]


def _holds_tile(value: Any) -> bool:
    return any(map(_holds_tile, value)) if isinstance(value, tuple) else isinstance(value, Tile)


def _merged(builtin: Builtin, arrivals: list[Arrival]) -> dict[str, Any]:
    """The arguments of a call that all lanes make; those that may differ hold the values of all lanes."""
    first = dict(arrivals[0].given or {})
    for name in builtin.per_lane:
        operand = operand_of(first[name], name)
        values = [known_number((arrival.given or {})[name]) for arrival in arrivals]
        first[name] = Scalar(Concrete(operand.type, np.asarray(values, operand.type.dtype.numpy)))
    return first
