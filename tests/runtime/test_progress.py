from __future__ import annotations

import io
import logging
import threading

import pytest

from tilekit.config import config
from tilekit.runtime import progress as module
from tilekit.runtime.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The line comes at once; the event is set when it was written."""
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    written = threading.Event()
    begin = module._Line.begin

    def begun(line: module._Line) -> None:
        begin(line)
        written.set()

    monkeypatch.setattr(module._Line, "begin", begun)
    return written


def test_a_terminal_is_told_once(impatient: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress("compiling kernel 'k' with g++"):
        assert impatient.wait(10)
    assert terminal.getvalue().startswith("tilekit: compiling kernel 'k' with g++ ... ")
    assert terminal.getvalue().endswith(" s\n")
    assert terminal.getvalue().count("\n") == 1


def test_a_reason_is_asked_for_where_it_is_shown(impatient: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with config.scoped(cache_dir="/somewhere"), progress("compiling", lambda: f"in {config.cache_dir}"):
        assert impatient.wait(10)
    assert terminal.getvalue().startswith("tilekit: compiling (in /somewhere) ... ")
    impatient.clear()
    with progress("compiling", lambda: ""):
        assert impatient.wait(10)
    assert "\ntilekit: compiling ... " in terminal.getvalue()
    monkeypatch.setattr(module, "PATIENCE", 60.0)
    with progress("compiling", lambda: pytest.fail("nobody sees it")):
        pass


def test_a_notebook_is_told(impatient: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr("sys.stderr", stream)
    with progress("compiling"):
        assert impatient.wait(10)
    assert stream.getvalue().startswith("tilekit: compiling ... ")


def test_a_failure_ends_the_line_too(impatient: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with pytest.raises(KeyboardInterrupt), progress("compiling"):
        assert impatient.wait(10)
        raise KeyboardInterrupt
    assert terminal.getvalue() == "tilekit: compiling ... failed\n"


def test_what_is_quick_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress("compiling"):
        pass
    assert terminal.getvalue() == ""


def test_a_line_that_comes_too_late_is_not_written() -> None:
    terminal = Terminal()
    line = module._Line("compiling", terminal)
    line.end("1 s")
    line.begin()
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_elsewhere_nothing_is_written(
    stream: io.StringIO | None, impatient: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    with progress("compiling"):
        assert not impatient.wait(0.05)
    assert stream is None or stream.getvalue() == ""


def test_the_time_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tilekit"), progress("compiling kernel 'k' with g++"):
        pass
    assert caplog.messages[0].startswith("compiling kernel 'k' with g++: 0.0")


def test_patience_is_two_seconds() -> None:
    assert module.PATIENCE == 2.0
