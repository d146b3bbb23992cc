"""Imports under tilekit/ go one way. Read from the source, so lazy and type-only imports count as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("ir", "codegen", "builtins", "passes", "frontend", "runtime", "interop")
COMMON = ("errors", "config", "options", "forks")
"""Modules that every layer may import; they import each other only."""
TOP = ("__init__", "__main__", "public", "cli", "examples", "bench")
"""May import anything, and no layer imports them."""
NATIVE = "native"


def part_of(module: str) -> str:
    """``tilekit.ir.types`` -> ``ir``; ``tilekit`` itself is ``__init__``."""
    return ([*module.split("."), "__init__"])[1]


def module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of each module of tilekit that a file imports, anywhere in it."""
    module = module_of(path, root)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            # `from tilekit import errors` names a module, `from tilekit.errors import X` something inside one.
            submodules = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if is_module(name, root) else base for name in submodules]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "tilekit")


def is_module(name: str, root: Path) -> bool:
    path = root.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def refusal(importer: str, imported: str) -> str | None:
    """Why one part of tilekit must not import another, or None where it may."""
    if importer in TOP or importer == imported:
        return None
    if imported in TOP:
        return f"{importer} imports the top of the package ({imported})"
    if imported in COMMON:
        return None
    if importer in COMMON:
        return f"{importer} is imported by every layer and imports {imported}"
    for name in (importer, imported):
        if name not in LAYERS:
            return f"{name} is no layer: add it to DESIGN's order and to this test"
    if LAYERS.index(imported) > LAYERS.index(importer):
        return f"{importer} imports {imported}, which comes after it"
    return None


def violations(root: Path) -> list[str]:
    found = []
    for path in sorted((root / "tilekit").rglob("*.py")):
        importer = part_of(module_of(path, root))
        for line, name in imports_of(path, root):
            why = refusal(importer, part_of(name))
            if why:
                found.append(f"{path.relative_to(root).as_posix()}:{line}: {why}")
    return found


def test_imports_go_one_way() -> None:
    assert not violations(ROOT)


def test_every_part_has_its_place() -> None:
    parts = {part_of(module_of(path, ROOT)) for path in (ROOT / "tilekit").rglob("*.py")}
    assert parts - {NATIVE} <= {*LAYERS, *COMMON, *TOP}


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("ir/a.py", "from tilekit.errors import X", None),
        ("ir/a.py", "from tilekit.codegen import b", "ir/a.py:1: ir imports codegen"),
        ("ir/a.py", "from tilekit import codegen", "ir/a.py:1: ir imports codegen"),
        ("ir/a.py", "import tilekit.codegen.b as b", "ir/a.py:1: ir imports codegen"),
        ("ir/a.py", "from ..codegen.b import f", "ir/a.py:1: ir imports codegen"),
        ("ir/a.py", "from .. import codegen", "ir/a.py:1: ir imports codegen"),
        ("ir/__init__.py", "from .a import f", None),
        ("ir/a.py", "def f():\n    from tilekit.runtime import r", "ir/a.py:2: ir imports runtime"),
        ("ir/a.py", "if TYPE_CHECKING:\n    import tilekit.passes", "ir/a.py:2: ir imports passes"),
        ("codegen/b.py", "import tilekit.ir.a, tilekit.config", None),
        ("codegen/b.py", "import tilekit as tk", "codegen/b.py:1: codegen imports the top of the package"),
        ("codegen/b.py", "from tilekit import kernel", "codegen/b.py:1: codegen imports the top of the package"),
        ("codegen/b.py", "from tilekit.examples import digits", "codegen/b.py:1: codegen imports the top"),
        ("errors.py", "from tilekit.ir.a import f", "errors.py:1: errors is imported by every layer"),
        ("other.py", "from tilekit.ir.a import f", "other.py:1: other is no layer"),
        ("__main__.py", "from tilekit.interop import torch", None),
        ("examples/e.py", "import tilekit as tk", None),
        ("runtime/r.py", "import numpy, tilekit_other", None),
    ],
)
def test_the_rule_itself(tmp_path: Path, file: str, text: str, expected: str | None) -> None:
    for name in (*LAYERS, "examples"):
        (tmp_path / "tilekit" / name).mkdir(parents=True)
    (tmp_path / "tilekit" / "errors.py").write_text("")
    (tmp_path / "tilekit" / file).write_text(text)
    found = violations(tmp_path)
    assert (not found) if expected is None else found[0].startswith(f"tilekit/{expected}")
