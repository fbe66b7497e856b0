"""The pages of the documentation: their tables, code blocks, headings and links."""

import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from app.documentation.resources import documentation_page

ROOT = Path(__file__).parents[2]


class Block(NamedTuple):
    """A code block: the page it is on, its language, and its text."""

    page: str
    language: str
    text: str


@cache
def files() -> list[Path]:
    """Return the files of the repository, without what tools make in it.

    PERF: an environment has 25,000 files, and to look at them takes half a second.
    """
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if name == ".ci" or not name.startswith((".", "__pycache__", "build", "dist"))
        ]
        found += [Path(folder, name) for name in names]
    return sorted(found)


def _pages() -> dict[str, str]:
    pages = [path for path in files() if path.suffix == ".md"]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages}


PAGES = _pages()
"""The text of each page, by its path in the repository."""


class Decision(NamedTuple):
    """A decision: the room it is in, its number, such as D20, and its text without the title."""

    room: str
    number: str
    text: str


_FENCE = re.compile(r"(?ms)^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```$")
_LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")


@cache
def table(first_header: str) -> list[list[str]]:
    """Return the rows of the one table whose first column has this header."""
    header = re.compile(
        rf"(?m)^\| {re.escape(first_header)} \|.*\n\|[-|]+\|\n(?P<rows>(?:\|.*\n)*)"
    )
    found = [match["rows"] for text in PAGES.values() for match in header.finditer(text)]
    assert len(found) == 1, f"{len(found)} pages have a table of {first_header}"
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found[0].splitlines()]


def blocks(page: str) -> list[Block]:
    """Return the code blocks of a page."""
    found = _FENCE.finditer(PAGES[page])
    return [Block(page, match["language"], match["text"]) for match in found]


def without_blocks(text: str) -> str:
    """Return a page's text without its code blocks."""
    return _FENCE.sub("", text)


def quoted(text: str) -> list[str]:
    """Return the texts in backticks, without code blocks."""
    return re.findall(r"`([^`\n]+)`", without_blocks(text))


def section(page: str, title: str) -> str:
    """Return a section of a page, up to the next heading of the same or a higher level."""
    found = re.search(
        # A comment in a code block is no heading.
        rf"(?ms)^(?P<level>#+) {re.escape(title)}\n"
        r"(?P<text>(?:^ *```.*?^ *```$|.)*?)(?=^(?!(?P=level)#)#+ |\Z)",
        PAGES[page],
    )
    assert found, f"{page} has no section {title}"
    return found["text"]


def first_block(page: str, title: str) -> str:
    """Return the first code block of a section."""
    found = _FENCE.search(section(page, title))
    assert found, f"{title} in {page} has no code block"
    return found["text"]


def documentation_section(name: str) -> str:
    """Return a section of the page /docs, as HTML."""
    (found,) = re.findall(
        rf'(?s)<section[^>]* id="{name}">.*?</section>', documentation_page().decode()
    )
    return str(found)


def links(page: str) -> list[str]:
    """Return the targets of a page's links within the repository."""
    text = re.sub(r"`[^`\n]+`", "", without_blocks(PAGES[page]))
    targets = [match["target"] for match in _LINK.finditer(text)]
    return [target for target in targets if not target.startswith(("http:", "https:"))]


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    made: list[str] = []
    for heading in re.findall(r"(?m)^#+ (.+)$", without_blocks(PAGES[page])):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        before = sum(
            re.fullmatch(rf"{re.escape(slug)}(-\d+)?", other) is not None for other in made
        )
        made.append(f"{slug}-{before}" if before else slug)
    return set(made)


def decisions() -> list[Decision]:
    """Return all decisions, in the order of the page."""
    made = []
    for part in re.split(r"(?m)^## ", PAGES["app/DECISIONS.md"])[1:]:
        room = part.partition("\n")[0]
        found = re.finditer(r"(?ms)^### (D[0-9]+) [^\n]+\n(.*?)(?=^#|\Z)", part)
        made += [Decision(room, number, text) for number, text in (each.groups() for each in found)]
    return made
