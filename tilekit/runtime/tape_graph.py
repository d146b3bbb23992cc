"""What a tape has recorded, as a drawing of GraphViz."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import view_of


def drawing(
    records: Sequence[Any],
    scopes: Sequence[tuple[int, str | None, Any]],
    labels: Sequence[tuple[Any, str]],
    direction: str,
) -> str:
    """The text for ``dot``: a box for each record, an ellipse for each array, scopes around them."""
    return "\n".join(_lines(records, scopes, labels, direction)) + "\n"


def _lines(
    records: Sequence[Any],
    scopes: Sequence[tuple[int, str | None, Any]],
    labels: Sequence[tuple[Any, str]],
    direction: str,
) -> Iterator[str]:
    yield "digraph tape {"
    yield f"  rankdir={direction};"
    names = {_place(view_of(array)): text for array, text in labels}
    arrays: dict[Any, str] = {}
    edges: list[str] = []
    depth, clusters = 1, 0
    for number in range(len(records) + 1):
        for at, name, _ in scopes:
            if at == number and name is None:
                depth -= 1
                yield f"{'  ' * depth}}}"
            elif at == number:
                yield f"{'  ' * depth}subgraph cluster{clusters} {{"
                clusters += 1
                depth += 1
                yield f"{'  ' * depth}label={_quoted(name or '')};"
        if number < len(records):
            record = records[number]
            yield f"{'  ' * depth}launch{number} [shape=box, label={_quoted(record.title)}];"
            edges += _edges(number, record, arrays, names)
    yield from ("  " * level + "}" for level in range(depth - 1, 0, -1))
    yield from (f"  {arrays[place]};" for place in arrays)
    yield from edges
    yield "}"


def _edges(number: int, record: Any, arrays: dict[Any, str], names: dict[Any, str]) -> Iterator[str]:
    written: frozenset[str] = getattr(record, "written", frozenset())
    for name, view in getattr(record, "views", record.floats()).items():
        place = _place(view)
        node = f"array{list(arrays).index(place) if place in arrays else len(arrays)}"
        text = names.get(place, f"{name}: {view.dtype.name}{list(view.shape)}")
        arrays.setdefault(place, f"{node} [shape=ellipse, label={_quoted(text)}]")
        yield f"  launch{number} -> {node};" if name in written else f"  {node} -> launch{number};"


def _place(view: ArrayView) -> Any:
    return view.device, view.pointer, view.shape, view.strides


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
