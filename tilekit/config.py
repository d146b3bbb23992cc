"""Every option of tilekit: ``from tilekit.config import config``, or ``tk.config``.

Options are set by assignment, by environment variables (read once, at the first use of any option) or for the length
of a ``with config.scoped(...)``. The table with types, defaults and environment variables is ``tilekit.options``.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilekit.errors import KernelAttributeError
from tilekit.forks import Lock
from tilekit.options import ALIASES, OPTIONS, WARP_OPTIONS, Option

_TABLE: dict[str, Option] = {option.name: option for option in OPTIONS + WARP_OPTIONS}
_stamps = itertools.count(1)


class _Scope:
    """The options that one ``scoped`` block overrides; a chain through ``parent``, the innermost first."""

    __slots__ = ("parent", "stamp", "under", "values")

    def __init__(self, parent: _Scope | None, values: dict[str, Any], under: int) -> None:
        self.parent = parent
        self.values = values
        self.under = under
        self.stamp = next(_stamps)


_scope: ContextVar[_Scope | None] = ContextVar("tilekit_config_scope", default=None)


class Config:
    """The options, one attribute each. There is one instance, :data:`config`.

    An unknown name raises KernelAttributeError and a wrong type or value KernelValueError. Assigning None to an option
    that has an environment variable gives back the environment's value.

    Example:
        >>> with config.scoped(gemm="scalar"):
        ...     config.gemm
        'scalar'
        >>> config.gem = "scalar"
        Traceback (most recent call last):
        ...
        tilekit.errors.KernelAttributeError: tilekit has no option 'gem'; did you mean 'gemm'?
    """

    gemm: str
    require_gemm: str | None
    enable_mathdx_gemm: bool
    checked: bool
    index_checks: bool
    fast_math: bool
    max_unroll: int
    checkpoints: int
    enable_backward: bool
    deterministic: bool
    device: str | None
    num_threads: int | None
    cache_dir: str | None
    kernel_cache_dir: str | None
    cxx: str | None
    compile_timeout: float
    dump: tuple[str, ...]
    dump_dir: str | None
    mode: str
    lineinfo: bool
    line_directives: bool
    version: int
    """Two reads that give the same number saw the same options. A launch compares it instead of every option."""

    # Reading an option is a lookup in the instance's __dict__. Missing from it, so that __getattr__ runs, are: before
    # the environment was read, everything; while a scope is active in any thread, `version` and what it overrides.

    def __init__(self) -> None:
        state = self.__dict__
        state["_lock"] = Lock()
        state["_base"] = {}
        state["_environment"] = {}
        state["_scoped"] = {}

    def __getattr__(self, name: str) -> Any:
        name = ALIASES.get(name, name)
        scope = _scope.get()
        if name == "version" and scope is not None:
            return self._version(scope)
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        if name not in _TABLE and name != "version":
            raise _unknown(name)
        if not self._base:
            self.reload()
        return self._base[name]

    def __setattr__(self, name: str, value: object) -> None:
        name = ALIASES.get(name, name)
        if name == "version":
            raise KernelAttributeError("config.version counts the changes of options and cannot be set")
        if not self._base:
            self.reload()
        checked = self._checked(name, value)
        with self._lock:
            scope = _scope.get()
            while scope is not None and name not in scope.values:
                scope = scope.parent
            values = self._base if scope is None else scope.values
            if values[name] == checked and type(values[name]) is type(checked):
                return
            values[name] = checked
            if scope is None:
                self._base["version"] = next(_stamps)
            else:
                scope.stamp = next(_stamps)
            self._publish()

    def __delattr__(self, name: str) -> None:
        raise KernelAttributeError(f"options cannot be deleted; config.reset({name!r}) restores the default")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *_TABLE, *ALIASES, "version"})

    @contextmanager
    def scoped(self, **options: Any) -> Iterator[Config]:
        """Override options inside a ``with`` block: for this thread and asyncio task, nested at will.

        Assigning an option inside the block that overrides it lasts until the end of the block.

        Example:
            >>> with config.scoped(checked=True, max_unroll=4) as c:
            ...     c.checked, c.max_unroll
            (True, 4)
        """
        if not self._base:
            self.reload()
        values = {ALIASES.get(name, name): self._checked(name, value) for name, value in options.items()}
        parent = _scope.get()
        scope = _Scope(parent, values, self._version(parent))
        self._count(values, 1)
        token = _scope.set(scope)
        try:
            yield self
        finally:
            _scope.reset(token)
            self._count(values, -1)

    def reset(self, *names: str) -> None:
        """Give the named options, or all, the values they had after the environment was read."""
        if not self._base:
            self.reload()
        for name in names or tuple(_TABLE):
            option = _option(name)
            setattr(self, option.name, self._environment.get(option.name, option.default))

    def reload(self) -> None:
        """Forget every assignment and read the environment again, e.g. in tests."""
        with self._lock:
            texts = {name: os.environ.get(option.env, "") for name, option in _TABLE.items() if option.env}
            environment = {name: _TABLE[name].from_text(text) for name, text in texts.items() if text}
            base = {name: environment.get(name, option.default) for name, option in _TABLE.items()}
            self.__dict__["_environment"] = environment
            self.__dict__["_base"] = base | {"version": next(_stamps)}
            self._publish()

    def values(self) -> Mapping[str, Any]:
        """Every option of tilekit's own (not Warp's without effect) with its value here and now."""
        return {option.name: getattr(self, option.name) for option in OPTIONS}

    def snapshot(self) -> tuple[int, Mapping[str, Any]]:
        """The version and the values of tilekit's own options at one moment, whatever other threads change."""
        if not self._base:
            self.reload()
        with self._lock:
            return self.version, MappingProxyType(dict(self.values()))

    def chosen(self, name: str, options: Mapping[str, Any]) -> Any:
        """An option for one kernel, whose own ``options`` come first: its own, else its module's, else the one for all.

        Example:
            >>> config.chosen("max_unroll", {"module_options": {"max_unroll": 2}})
            2
        """
        module = options.get("module_options") or {}
        found = (options.get(name), module.get(name))
        return next((value for value in found if value is not None), getattr(self, name))

    def describe(self, name: str) -> Option:
        """The table's row of an option: type, default, environment variable and meaning."""
        return _option(name)

    def cache_folder(self) -> Path:
        """The folder of the on-disk cache: the option ``cache_dir``, else the user's cache folder."""
        return Path(self.cache_dir) if self.cache_dir else _user_cache() / "tilekit"

    def dump_folder(self) -> Path:
        """The folder that dumps are written to: the option ``dump_dir``, else ``tilekit-dump`` here."""
        return Path(self.dump_dir) if self.dump_dir else Path.cwd() / "tilekit-dump"

    def _checked(self, name: str, value: object) -> Any:
        option = _option(name)
        if value is None and option.name in self._environment:
            return self._environment[option.name]
        return option.check(value)

    def _version(self, scope: _Scope | None) -> int:
        if scope is None:
            return int(self._base["version"])
        under = self._base["version"] if scope.parent is None else self._version(scope.parent)
        if under != scope.under:
            # In this order, as threads may share a scope: a stamp is never older than what it stands for.
            scope.stamp = next(_stamps)
            scope.under = under
        return scope.stamp

    def _count(self, names: Mapping[str, Any], step: int) -> None:
        with self._lock:
            for name in (*names, "version"):
                self._scoped[name] = self._scoped.get(name, 0) + step
            self._publish()

    def _publish(self) -> None:
        """Mirror in ``__dict__`` the options that no active scope overrides. The lock is held."""
        for name, value in self._base.items():
            if self._scoped.get(name):
                self.__dict__.pop(name, None)
            else:
                self.__dict__[name] = value


def _option(name: str) -> Option:
    option = _TABLE.get(ALIASES.get(name, name))
    if option is None:
        raise _unknown(name)
    return option


def _unknown(name: str) -> KernelAttributeError:
    import difflib  # only errors need it

    close = difflib.get_close_matches(name, [*_TABLE, *ALIASES], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; options are {', '.join(o.name for o in OPTIONS)}"
    return KernelAttributeError(f"tilekit has no option {name!r}{hint}")


def _user_cache() -> Path:
    """The platform's folder for caches of the current user."""
    try:
        home = Path.home()
    except RuntimeError:  # no home directory, as in some containers; the cache checks who owns the folder
        import tempfile

        return Path(tempfile.gettempdir()) / f"cache-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else home / ".cache"


config = Config()
"""The options of this process."""
