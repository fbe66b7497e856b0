"""Rows from JSON objects whose members are a layout's columns."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from operator import call
from typing import Any, BinaryIO

from app.registers.formats.columns import Column, Layout, normalised
from app.registers.formats.interface import Report, RowFault, RowSkip
from app.registers.formats.json_stream import Number, Objects
from app.registers.formats.memo import Memo
from app.registers.rows import Row

_PLACES_MAX = 30


def rows(
    stream: BinaryIO, layout: Layout, report: Report, *, only_lines: bool = False
) -> Iterator[Row]:
    """Read a row an object; whatever is wrong with an object is one reject.

    Raises FileFault where the JSON cannot be read on. With `only_lines` it is NDJSON.
    """
    reads, finish, texts = layout.reads, layout.finish, _texts_of(layout.columns)
    objects = Objects(stream, report, only_lines=only_lines)
    for members in objects:
        try:
            row = finish(map(call, reads, texts(members)))
        except RowFault as fault:
            objects.reject(str(fault))
        except RowSkip as skip:
            objects.skip(str(skip))
        else:
            yield row


def _texts_of(columns: tuple[Column, ...]) -> Callable[[dict[str, Any]], list[str]]:
    """Return what takes the columns' texts out of an object, as a CSV file would have them."""

    def place_of(member: str) -> int:
        name = normalised(member)
        return next((i for i, column in enumerate(columns) if name in column.names), -1)

    places = Memo(place_of)

    def texts(members: dict[str, Any]) -> list[str]:
        found = [""] * len(columns)
        for member, value in members.items():
            place = places[member]
            if place < 0 or value is None:
                continue
            if found[place]:
                raise RowFault(f"{columns[place].label}: there twice")
            if type(value) is str:
                found[place] = value
            elif place:
                found[place] = text_of(columns[place].label, value)
            else:
                # A number may have lost its leading zeros (formats 0.2).
                raise RowFault(f"{columns[place].label}: not a JSON string")
        return found

    return texts


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
