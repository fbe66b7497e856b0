"""NDJSON: one JSON object a line."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import chain
from operator import call
from typing import Any, BinaryIO

import msgspec

from app.registers.formats.columns import Column, Layout, normalised
from app.registers.formats.interface import Report, RowFault
from app.registers.formats.lines import LINE_BYTES_MAX, Overlong, blocks, windows_1252
from app.registers.formats.memo import Memo
from app.registers.rows import Row

_PLACES_MAX = 30


class _Number(str):
    """A JSON number with a fraction or an exponent, as it stands: never a float."""

    __slots__ = ()


_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=_Number)


def decoded(line: bytes) -> dict[str, Any] | None:
    """Return the object that a line holds, None if it holds none.

    A line that is not UTF-8 is read as Windows-1252 (formats 0.5). Numbers with a fraction or
    an exponent are texts of a class of their own, all others are integers.
    """
    # SEC: nesting too deep ends in RecursionError, every other fault in a ValueError.
    try:
        try:
            return _decoder.decode(line)
        except UnicodeDecodeError:
            return _decoder.decode(windows_1252(line))
    except (ValueError, RecursionError):
        return None


def member_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of all members in the head's whole records."""
    records = map(decoded, head.removeprefix(b"\xef\xbb\xbf").splitlines())
    return frozenset(normalised(name) for record in records if record for name in record)


def rows(stream: BinaryIO, layout: Layout, report: Report) -> Iterator[Row]:
    """Read one object a line; whatever is wrong with a line is one reject."""
    reads, finish, texts = layout.reads, layout.finish, _texts_of(layout.columns)
    for number, line in enumerate(chain.from_iterable(_lines(stream, report)), 1):
        record = decoded(line)
        if record is None:
            if line and not line.isspace():
                report.reject(number, "not a JSON object", _shown(line))
            continue
        try:
            row = finish(map(call, reads, texts(record)))
        except RowFault as fault:
            report.reject(number, str(fault), _shown(line))
        else:
            yield row


def _lines(stream: BinaryIO, report: Report) -> Iterator[list[bytes]]:
    number = 1
    for block in blocks(stream):
        if isinstance(block, Overlong):
            report.reject(number, f"longer than {LINE_BYTES_MAX} bytes", _shown(block.start))
            lines = [b""]
        else:
            lines = block.splitlines()
        yield lines
        number += len(lines)


def _texts_of(columns: tuple[Column, ...]) -> Callable[[dict[str, Any]], list[str]]:
    """Return what takes the columns' texts out of a record, as a CSV file would have them."""

    def place_of(member: str) -> int:
        name = normalised(member)
        return next((i for i, column in enumerate(columns) if name in column.names), -1)

    places = Memo(place_of)

    def texts(record: dict[str, Any]) -> list[str]:
        found = [""] * len(columns)
        for member, value in record.items():
            place = places[member]
            if place < 0 or value is None:
                continue
            if found[place]:
                raise RowFault(f"{columns[place].label}: there twice")
            if type(value) is str:
                found[place] = value
            elif place:
                found[place] = _text(columns[place].label, value)
            else:
                # A number may have lost its leading zeros (formats 0.2).
                raise RowFault("registration: not a JSON string")
        return found

    return texts


def _text(label: str, value: Any) -> str:
    """Return a value that is no string as a text; an object or array rejects (formats 0.6)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise RowFault(f"{label}: a JSON object or array")
    if isinstance(value, int):
        return str(value)
    return _plain(value) if "e" in value.lower() else str(value)


def _plain(number: str) -> str:
    """Write out a number with an exponent, if it is of a size that anybody means."""
    try:
        exact = Decimal(number)
    except ArithmeticError:
        return str(number)
    return format(exact, "f") if abs(exact.adjusted()) <= _PLACES_MAX else str(number)


def _shown(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return windows_1252(line)
