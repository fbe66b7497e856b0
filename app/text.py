"""Writes text: numbers with their nouns, sentences, and what others chose for terminals and CSV."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

# A formula of a spreadsheet begins with one of these, or with its full-width form.
_SIGN = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_FORMULA = re.compile(rf"\s*{_SIGN}|[\t\r\n]")
_DIVIDERS = ",;\t|"
"""What a spreadsheet may split cells at. It depends on the country, not on the file."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number and a noun, such as `1 policy` or `2,000 policies`.

    Args:
        many: the plural; the singular and an s by default.
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def capitalised(text: str) -> str:
    """Return a text with an upper-case first letter; the rest stays."""
    return text[:1].upper() + text[1:]


def as_sentence(clause: str) -> str:
    """Return the message of an exception, which is a clause, as a sentence."""
    return f"{capitalised(clause)}."


def printable(text: str) -> str:
    """Return a text with all unprintable characters escaped, so that it is one line.

    SEC: others choose the names of files, and the texts in them.
    """
    # PERF: nearly all texts are; without this a row of records takes twice as long.
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def printable_lines(text: str) -> str:
    """Return a text of several lines without characters that control a terminal."""
    return "\n".join(map(printable, text.split("\n")))


def text_cell(delimiter: str) -> Callable[[str | None], str]:
    """Return a function that makes a cell from text: quoted if needed, and never a formula.

    This also holds for a spreadsheet that splits cells at another character than the file.
    """
    plain = re.compile(rf'[0-9A-Za-z][^"\r\n{_DIVIDERS}]*\Z')
    # SEC: such a spreadsheet begins a cell at its own character, and at a line end. Our quotes are
    # then in the middle of a cell and have no effect.
    others = _DIVIDERS.replace(delimiter, "")
    inner_formula = re.compile(rf'([{others}\r\n]["\s]*)(?={_SIGN})')

    # PERF: makes, models and insurers are repeated often.
    @lru_cache(maxsize=65_536)
    def cell(text: str | None) -> str:
        if not text or plain.match(text):
            return text or ""
        # SEC: a spreadsheet would run this as a formula; the apostrophe makes it text.
        safe = f"'{text}" if _FORMULA.match(text) else text
        safe = inner_formula.sub(r"\1'", safe)
        if plain.match(safe) or not re.search(rf'["\r\n{re.escape(delimiter)}]', safe):
            return safe
        return '"' + safe.replace('"', '""') + '"'

    return cell


_comma_cell = text_cell(",")


def csv_line(values: Iterable[str | None]) -> str:
    """Return a line of a file whose cells are separated by commas, with its line end.

    SEC: characters that are not printable are escaped: a file may be shown on a terminal.
    """
    return f"{','.join(_comma_cell(printable(each or '')) for each in values)}\r\n"
