"""Links between pages lead somewhere, and from README.md they lead to every page and notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [path for kind in ("*.md", "*.rst") for path in DOCS.rglob(kind) if "_build" not in path.parts]
READ_FIRST = (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
TREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)


def without_code(page: Path) -> str:
    return re.sub(r"```(?!\{toctree).*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files, and places in them, that a page leads to."""
    text = page.read_text(encoding="utf-8") if page.suffix == ".md" else ""
    for target, place in LINK.findall(without_code(page)) if text else ():
        if "://" not in target:
            yield (page.parent / target).resolve() if target else page, place
    for tree in TREE.findall(text):
        for entry in (line for line in tree.split() if re.fullmatch(r"[\w/]+", line)):
            found = [
                path for path in ((page.parent / entry).with_suffix(end) for end in (".md", ".rst")) if path.exists()
            ]
            yield from ((path.resolve(), "") for path in found)


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    "page",
    [*READ_FIRST, *(page for page in PAGES if page.suffix == ".md")],
    ids=lambda p: p.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = [
        (file, place) for file, place in links(page) if not file.exists() or (place and place not in anchors(file))
    ]
    assert wrong == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached, found = set(), [READ_FIRST[0]]
    while found:
        page = found.pop()
        if page not in reached:
            reached.add(page)
            found += [file for file, _ in links(page) if file.suffix in (".md", ".rst", ".ipynb") and file.exists()]
    wanted = {*PAGES, *(ROOT / "notebooks").glob("*.ipynb")}
    assert sorted(str(path) for path in wanted - reached) == []


@pytest.mark.parametrize(
    ("link", "title"),
    [
        ("docs/devices.md", "Arrays, devices, streams"),
        ("docs/ptx_atoms.md", "Fused multiply-add and PTX atoms"),
        ("notebooks/01_first_kernel.ipynb", "a first kernel"),
        ("notebooks/02_exact_arithmetic.ipynb", "exact arithmetic"),
        ("notebooks/03_gradients.ipynb", "gradients"),
    ],
)
def test_the_readme_names_what_newcomers_look_for(link: str, title: str) -> None:
    assert f"[{title}]({link})" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_pictures_are_well_formed_and_name_folders_that_exist() -> None:
    pictures = sorted(DOCS.glob("*.svg"))
    assert pictures
    for picture in pictures:
        text = picture.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        named = re.findall(r"\btilekit/[\w/]+", text)
        assert [name for name in named if not (ROOT / name).exists()] == [], picture.name
    assert "tilekit/frontend" in (DOCS / "pipeline.svg").read_text(encoding="utf-8")
