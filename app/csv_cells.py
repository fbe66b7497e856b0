"""Makes cells of CSV files from text that others have chosen."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from app.printable import printable

# A formula of a spreadsheet begins with one of these, or with its full-width form.
_SIGN = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_FORMULA = re.compile(rf"\s*{_SIGN}|[\t\r\n]")
_DIVIDERS = ",;\t|"
"""What a spreadsheet may split cells at. It depends on the country, not on the file."""


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
