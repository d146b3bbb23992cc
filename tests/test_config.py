from __future__ import annotations

import contextvars
import os
import subprocess
import sys
import threading
import timeit
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tilekit.config import Config, config
from tilekit.errors import KernelAttributeError, KernelValueError
from tilekit.options import ALIASES, OPTIONS, WARP_OPTIONS


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    for option in OPTIONS:
        if option.env:
            monkeypatch.delenv(option.env, raising=False)
    yield Config()


def test_defaults(fresh: Config) -> None:
    assert {o.name: o.default for o in OPTIONS} == dict(fresh.values())
    assert (fresh.gemm, fresh.index_checks, fresh.max_unroll, fresh.num_threads) == ("auto", True, 16, None)


def test_every_option_has_an_annotation_and_a_meaning() -> None:
    assert {o.name for o in OPTIONS} | set(ALIASES) | {"version"} == set(Config.__annotations__)
    for option in OPTIONS + WARP_OPTIONS:
        assert option.doc.endswith((".", "?", "dump")), option
        assert option.check(option.default) == option.default


def test_environment_is_read_once_and_lazily(fresh: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEKIT_NUM_THREADS", "3")
    monkeypatch.setenv("TILEKIT_DUMP", "cuda, ir")
    monkeypatch.setenv("TILEKIT_CHECKED", "yes")
    monkeypatch.setenv("TILEKIT_CACHE_DIR", "some/where")
    assert (fresh.num_threads, fresh.dump, fresh.checked) == (3, ("ir", "cuda"), True)
    assert fresh.cache_folder() == Path.cwd() / "some" / "where"
    monkeypatch.setenv("TILEKIT_NUM_THREADS", "5")
    assert fresh.num_threads == 3
    fresh.num_threads = 7
    fresh.num_threads = None
    assert fresh.num_threads == 3
    fresh.reload()
    assert fresh.num_threads == 5
    fresh.num_threads = 9
    fresh.reset("num_threads")
    assert fresh.num_threads == 5


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("TILEKIT_NUM_THREADS", "many", "must be an integer of at least 1 or None, not 'many'"),
        ("TILEKIT_NUM_THREADS", "0", "must be an integer of at least 1 or None, not '0'"),
        ("TILEKIT_CHECKED", "maybe", "must be one of 0, 1, true, false, yes, no, on, off, not 'maybe'"),
        ("TILEKIT_DUMP", "irr", "must be names out of 'ir' or 'cuda' or 'cpu', separated by commas, not 'irr'"),
    ],
)
def test_wrong_environment(
    fresh: Config, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, expected: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(KernelValueError, match=f"environment variable {variable} {expected}"):
        fresh.gemm


def test_unknown_option(fresh: Config) -> None:
    with pytest.raises(KernelAttributeError, match="no option 'max_unrol'; did you mean 'max_unroll'"):
        fresh.max_unrol = 3
    with pytest.raises(KernelAttributeError, match="no option 'zzz'; options are gemm, "):
        fresh.zzz
    with pytest.raises(KernelAttributeError, match="did you mean 'checked'"), fresh.scoped(cheked=True):
        pass
    with pytest.raises(KernelAttributeError, match=r"config\.reset\('gemm'\)"):
        del fresh.gemm
    assert not hasattr(fresh, "nothing_like_it")
    assert {"gemm", "kernel_cache_dir", "verify_fp", "scoped"} <= set(dir(fresh))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gemm", "cublas"),
        ("gemm", "hopper"),
        ("gemm", None),
        ("require_gemm", "auto"),
        ("checked", 1),
        ("max_unroll", True),
        ("max_unroll", 2.0),
        ("max_unroll", -1),
        ("num_threads", 0),
        ("cache_dir", 3),
        ("cache_dir", ""),
        ("compile_timeout", float("nan")),
        ("compile_timeout", 0),
        ("dump", ("ir", 3)),
        ("log_level", "info"),
    ],
)
def test_wrong_value(fresh: Config, name: str, value: object) -> None:
    before = fresh.version, getattr(fresh, name)
    with pytest.raises(KernelValueError, match=f"option '{name}' must be "):
        setattr(fresh, name, value)
    assert (fresh.version, getattr(fresh, name)) == before


def test_values_are_normalised(fresh: Config, tmp_path: Path) -> None:
    fresh.max_unroll = np.int64(3)
    fresh.checked = np.bool_(True)
    fresh.kernel_cache_dir = tmp_path
    assert (type(fresh.max_unroll), fresh.checked) == (int, True)
    assert fresh.cache_dir == fresh.kernel_cache_dir == str(tmp_path) == str(fresh.cache_folder())
    fresh.dump = "ir"
    assert fresh.dump == ("ir",)


def test_every_option_of_warp_is_accepted(fresh: Config) -> None:
    warp_config = pytest.importorskip("warp").config
    for name, value in vars(warp_config).items():
        if not name.startswith("_") and name != "version" and not isinstance(value, type):
            setattr(fresh, name, value)


def test_version_tells_states_apart(fresh: Config) -> None:
    first = fresh.version
    fresh.gemm = "auto"
    assert fresh.version == first
    fresh.gemm = "scalar"
    second = fresh.version
    assert second > first
    with fresh.scoped(checked=True):
        inside = fresh.version
        assert inside not in (first, second) and fresh.version == inside
        fresh.checked = False
        assert fresh.version > inside
    assert (fresh.version, fresh.checked) == (second, False)
    with pytest.raises(KernelAttributeError):
        fresh.version = 3


def test_scopes_nest_and_end_after_errors(fresh: Config) -> None:
    with pytest.raises(ZeroDivisionError), fresh.scoped(gemm="mma", max_unroll=2):
        with fresh.scoped(gemm="scalar"):
            fresh.max_unroll = 3
            fresh.fast_math = True
            assert (fresh.gemm, fresh.max_unroll) == ("scalar", 3)
        assert (fresh.gemm, fresh.max_unroll) == ("mma", 3)
        1 / 0
    assert (fresh.gemm, fresh.max_unroll, fresh.fast_math) == ("auto", 16, True)


def test_a_scope_is_seen_by_its_own_thread_only(fresh: Config) -> None:
    seen: list[tuple[str, int]] = []
    base = fresh.version

    def read() -> None:
        seen.append((fresh.gemm, fresh.version))

    with fresh.scoped(gemm="scalar"):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        contextvars.copy_context().run(read)
        assert seen == [("auto", base), ("scalar", fresh.version)]


def test_a_global_change_renews_the_version_of_a_scope(fresh: Config) -> None:
    with fresh.scoped(gemm="scalar"), fresh.scoped(checked=True):
        before = fresh.version
        thread = threading.Thread(target=lambda: setattr(fresh, "max_unroll", 2))
        thread.start()
        thread.join()
        assert fresh.max_unroll == 2 and fresh.version > before


def test_scopes_in_many_threads(fresh: Config) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            with fresh.scoped(max_unroll=number):
                if fresh.max_unroll != number:
                    wrong.append(number)
            if fresh.max_unroll != 16:
                wrong.append(-number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(20, 24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert "max_unroll" in vars(fresh) and "version" in vars(fresh)


def test_reads_are_cheap(fresh: Config) -> None:
    fresh.gemm
    nothing = min(timeit.repeat("c", globals={"c": fresh}, number=10000, repeat=5))
    reading = min(timeit.repeat("c.version", globals={"c": fresh}, number=10000, repeat=5))
    assert (reading - nothing) / 10000 < 500e-9  # some 20 ns on a free core; a call of Python would take longer


def test_user_cache_folder(fresh: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert fresh.cache_folder() == tmp_path / "tilekit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert fresh.cache_folder() == tmp_path / ".cache" / "tilekit"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert fresh.cache_folder() == tmp_path / "Library" / "Caches" / "tilekit"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert fresh.cache_folder() == tmp_path / "local" / "tilekit"


def test_importing_reads_no_environment() -> None:
    code = (
        "import os; from tilekit.config import config; assert not vars(config)['_base']\n"
        "os.environ['TILEKIT_GEMM'] = 'mma'; assert config.gemm == 'mma'"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TILEKIT_GEMM"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_process_has_one_config() -> None:
    assert isinstance(config, Config)
