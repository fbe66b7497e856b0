"""Rows from JSON objects whose members are a layout's columns."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from operator import call
from typing import Any, BinaryIO

from app.registers.formats.changes import Row
from app.registers.formats.columns import Column, Layout, normalised
from app.registers.formats.format import Report, RowFault, RowSkip
from app.registers.formats.json_stream import Number, Objects
from app.registers.formats.values import shown

_PLACES_MAX = 30
_NAMES_MAX = 10_000


def rows(
    stream: BinaryIO, layout: Layout, report: Report, *, only_lines: bool = False
) -> Iterator[Row]:
    """Read a row an object; whatever is wrong with an object is one reject.

    Raises FileFault where the JSON cannot be read on. With `only_lines` it is NDJSON.
    """
    reads, finish, texts_of = layout.reads, layout.finish, _Texts(layout.columns, report).of
    objects = Objects(stream, report, only_lines=only_lines)
    for members in objects:
        try:
            row = finish(map(call, reads, texts_of(members)))
        except RowFault as fault:
            objects.reject(str(fault))
        except RowSkip as skip:
            objects.skip(str(skip))
        else:
            yield row


class _Texts:
    """Takes the columns' texts out of objects, as a CSV file would have them."""

    def __init__(self, columns: tuple[Column, ...], report: Report) -> None:
        self._columns = columns
        self._report = report
        self._seen: set[str] = set()
        # PERF: of 31 members 8 are used; to look for those takes a third of looking at all.
        self._used: list[tuple[str, int]] = []

    def of(self, members: dict[str, Any]) -> list[str]:
        """Return the texts in the order of the columns, empty where missing; raises RowFault."""
        if not self._seen.issuperset(members):
            self._learn(members)
        texts = [""] * len(self._columns)
        for name, place in self._used:
            value = members.get(name)
            if value is None:
                continue
            label = self._columns[place].label
            if texts[place]:
                raise RowFault(f"{label}: there twice")
            if type(value) is str:
                texts[place] = value
            elif not place:
                # A number may have lost its leading zeros (formats 0.2).
                raise RowFault(f"{label}: not a JSON string")
            elif self._columns[place].is_whole and isinstance(value, Number):
                raise RowFault(f"{label}: not digits only: {shown(value)}")
            else:
                texts[place] = text_of(label, value)
        return texts

    def _learn(self, members: Iterable[str]) -> None:
        # SEC: names that are new in every object must not fill the memory.
        if len(self._seen) > _NAMES_MAX:
            self._seen.clear()
            self._used.clear()
        new = [name for name in members if name not in self._seen]
        self._report.columns(new)
        for name in new:
            self._seen.add(name)
            folded = normalised(name)
            self._used += [(name, i) for i, c in enumerate(self._columns) if folded in c.names]


def text_of(label: str, value: Any) -> str:
    """Return a member's value as a text, empty if null; objects and arrays reject (formats 0.6)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise RowFault(f"{label}: a JSON object or array")
    if isinstance(value, Number):
        return _plain(value) if "e" in value.lower() else str(value)
    return "" if value is None else str(value)


def _plain(number: str) -> str:
    """Write out a number with an exponent, if it is of a size that anybody means."""
    try:
        exact = Decimal(number)
    except ArithmeticError:
        return str(number)
    return format(exact, "f") if abs(exact.adjusted()) <= _PLACES_MAX else str(number)
