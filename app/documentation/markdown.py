"""Turns a page of this package into Markdown, for people who paste it and programs that read it."""

import re
from html.parser import HTMLParser
from typing import Final

_PREFIXES: Final = {
    **{f"h{level}": "#" * level + " " for level in range(1, 5)},
    "p": "",
    "summary": "#### ",
    "pre": "",
    "tr": "|",
    "dt": "- ",
    "dd": "  ",
    "li": "- ",
}
"""How the block that each element begins starts."""
_MARKS: Final = {"code": "`", "strong": "**"}
_LEFT_OUT: Final = frozenset({"head", "header", "nav", "fieldset", "label"})
_LEFT_OUT_CLASSES: Final = frozenset({"contents-narrow", "try"})
_WITHIN: Final = ("#", "docs#")
"""How links to places that the text itself has begin."""
_LANGUAGES: Final = {"curl": "sh", "python": "python", "typescript": "typescript"}
_CLOSE: Final = (("|",), ("-", "1", "  "))
"""How the rows of a table and the items of a list begin: no empty line is between them."""
_SPACE: Final = re.compile(r"[ \n\xa0]+")


def markdown_of(page: str) -> str:
    """Return a rendered page as Markdown, without what only leads through the page."""
    reader = _Reader()
    reader.feed(page)
    text = ""
    for block in reader.blocks:
        former = text.rpartition("\n")[2]
        is_close = any(block.startswith(each) and former.startswith(each) for each in _CLOSE)
        text += ("\n" if is_close else "\n\n") + block
    return text.strip() + "\n"


class _Reader(HTMLParser):
    """Collects the blocks of a page. No block of these pages is within another."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self._text = ""
        self._hidden = ""
        """The outermost element that is left out, while it is open."""
        self._depth = 0
        """How many elements of that name are open."""
        self._item = "- "
        self._language = ""
        self._is_sample = False
        self._link = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        classes = attributes.get("class", "").split()
        if self._hidden:
            self._depth += tag == self._hidden
        elif tag in _LEFT_OUT or not _LEFT_OUT_CLASSES.isdisjoint(classes):
            self._hidden, self._depth = tag, 1
        elif tag in _PREFIXES:
            self._end_block()
            self._text = self._item if tag == "li" else _PREFIXES[tag]
            self._is_sample = tag == "pre"
        elif tag in ("ol", "ul"):
            self._item = "1. " if tag == "ol" else "- "
        elif tag in ("th", "td"):
            self._text += " "
        elif tag == "a" and not attributes["href"].startswith(_WITHIN):
            self._link = attributes["href"]
            self._text += "["
        elif tag == "div" and classes[:1] == ["sample"]:
            self._language = _LANGUAGES[classes[1]]
        elif not self._is_sample:
            self._text += _MARKS.get(tag, "")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._depth -= tag == self._hidden
            if not self._depth:
                self._hidden = ""
        elif tag in _PREFIXES:
            self._end_block()
        elif tag in ("th", "td"):
            self._text = self._text.rstrip() + " |"
        elif tag == "thead":
            self.blocks.append(re.sub("[^|]+", " --- ", self.blocks[-1]))
        elif tag == "a" and self._link:
            self._text += f"]({self._link})"
            self._link = ""
        elif not self._is_sample:
            self._text += _MARKS.get(tag, "")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._text += data if self._is_sample else _SPACE.sub(" ", data)

    def _end_block(self) -> None:
        if self._is_sample:
            self.blocks.append(f"```{self._language}\n{self._text.rstrip()}\n```")
            self._is_sample, self._language = False, ""
        elif text := self._text.rstrip().replace(" |  ", " | "):
            self.blocks.append(text)
        self._text = ""
