"""Draws performance.svg from the first table of performance.md: ``python docs/_ext/ratios_picture.py``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from math import log2
from pathlib import Path

DOCS = Path(__file__).parents[1]
PAGE, PICTURE = DOCS / "performance.md", DOCS / "performance.svg"
PEERS = ("library", "Triton", "Warp")
SIDES = {1 / 8: "tilekit is slower", 4: "tilekit is faster"}
CELL = re.compile(r"(?:(?P<name>[A-Za-z][\w.]*) )?(?P<value>[\d.]+), \*\*(?P<ratio>[\d.]+)\*\*")
LOWEST, HIGHEST = 1 / 64, 16
LEFT, RIGHT, WIDTH, TOP, LINE = 290, 735, 760, 76, 17

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .card { fill: #ffffff } .grid { stroke: #d0d7de } .one { stroke: #24292f; stroke-width: 1.5 }
  .group { font-weight: 600 } .tick { text-anchor: middle; font-size: 11px } .behind { fill: #8250df; opacity: 0.08 }
  .library { fill: #0969da } .Triton { fill: #bc4c00 } .Warp { fill: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .card { fill: #161b22 } .grid { stroke: #30363d } .one { stroke: #e6edf3 }
    .behind { fill: #a371f7; opacity: 0.15 }
    .library { fill: #58a6ff } .Triton { fill: #f0883e } .Warp { fill: #3fb950 }
  }
"""


@dataclass(frozen=True)
class Peer:
    """What was measured of a peer, and tilekit's speed divided by its."""

    name: str
    value: str
    ratio: float


@dataclass(frozen=True)
class Row:
    """A kernel; one without peers is the heading of those below it, with their unit."""

    title: str
    unit: str
    value: str
    peers: dict[str, Peer]


def rows(page: str) -> list[Row]:
    """The rows of the page's first table."""
    lines = page[page.index("| kernel | tilekit |") :].partition("\n\n")[0].splitlines()[2:]
    found, unit = [], ""
    for line in lines:
        title, value, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        peers = {}
        for column, cell in zip(PEERS, cells, strict=True):
            if cell:
                match = CELL.fullmatch(cell)
                assert match, f"not a number and its ratio: {cell}"
                peers[column] = Peer(match["name"] or column, match["value"], float(match["ratio"]))
        if not peers:
            title, _, unit = title.strip("*").rpartition(", ")
        found.append(Row(title, unit, value, peers))
    return found


def across(ratio: float) -> float:
    """Where a ratio lies from left to right."""
    part = (log2(ratio) - log2(LOWEST)) / (log2(HIGHEST) - log2(LOWEST))
    return round(LEFT + part * (RIGHT - LEFT), 1)


def mark(column: str, x: float, y: float) -> str:
    """A circle, a diamond or a square: colours are not all that tells peers apart."""
    if column == "library":
        return f'<circle class="{column}" cx="{x}" cy="{y}" r="4.5"/>'
    turn = f' transform="rotate(45 {x} {y})"' if column == "Triton" else ""
    return f'<rect class="{column}" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"{turn}/>'


def axis(bottom: int) -> list[str]:
    """The scale, and what lies behind the peers."""
    one = across(1)
    drawn = [f'<rect class="behind" x="{LEFT}" y="{TOP - 8}" width="{one - LEFT:.1f}" height="{bottom - TOP + 8}"/>']
    for power in range(-6, 5):
        x = across(2.0**power)
        shown = f"{2**power}&#215;" if power >= 0 else f"1/{2**-power}"
        kind = "one" if power == 0 else "grid"
        drawn.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP - 8}" y2="{bottom}"/>')
        drawn.append(f'<text class="tick" x="{x}" y="{TOP - 14}">{shown}</text>')
    return drawn


def legend() -> list[str]:
    """What the marks stand for, and which way is better."""
    drawn = ['<text x="12" y="22" class="group">Speed divided by the peer\'s</text>']
    drawn += [f'<text class="tick" x="{across(side)}" y="44">{word}</text>' for side, word in SIDES.items()]
    labels = {"library": "library (cuBLAS, PyTorch, NumPy, copy)", "Triton": "Triton", "Warp": "Warp"}
    for x, (column, label) in zip((300, 575, 655), labels.items(), strict=True):
        drawn += [mark(column, x, 18), f'<text x="{x + 10}" y="22">{label}</text>']
    return drawn


def picture(page: str) -> str:
    """The picture of a page's table.

    Args:
        page: Its text.
    """
    table, y, drawn = rows(page), TOP, []
    for row in table:
        y += LINE if row.peers else LINE + 7
        x, kind = (12, "group") if not row.peers else (24, "name")
        drawn.append(f'<text class="{kind}" x="{x}" y="{y}">{escape(row.title)}</text>')
        drawn += [mark(column, across(peer.ratio), y - 4) for column, peer in row.peers.items()]
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 16}" width="{WIDTH}" role="img">',
        "<title>Speed of tilekit's kernels divided by the speed of each peer</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" width="{WIDTH}" height="{y + 16}" rx="8"/>',
    ]
    return "\n".join([*head, *axis(y + 6), *legend(), *drawn, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
