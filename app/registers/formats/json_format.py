"""Files of JSON objects: finds the values of a row by the names of the object's members."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from operator import call
from typing import Any, BinaryIO

from app.registers.formats.changes import Change, Row
from app.registers.formats.columns import Column, Layout, RowFault, RowSkip, normalised
from app.registers.formats.encodings import ValuesNotUtf8
from app.registers.formats.format import NamedFormat, Report, UnreadableValues
from app.registers.formats.json_splitter import JsonNumber, is_array, member_names
from app.registers.formats.json_stream import JsonObjects
from app.registers.formats.values import quoted
from app.storage.tables import Kind

_EXPONENT_MAX = 30
_NAMES_MAX = 10_000


class JsonFormat(NamedFormat):
    """JSON objects: one per line, one after the other, or in an array.

    A subclass declares their members.
    """

    has_header = False

    def names_in(self, head: bytes) -> frozenset[str]:
        """Return the normalised names of the members of all objects in the head."""
        return member_names(head)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        """Yield one row per valid object."""
        return json_rows(stream, self.layout(kind), report)

    def ends_with_line(self, head: bytes) -> bool:
        """Return False for an array, which marks its own end, and True for all other files."""
        return not is_array(head)


def json_rows(
    stream: BinaryIO, layout: Layout, report: Report, *, only_lines: bool = False
) -> Iterator[Row]:
    """Yield one row per valid object; reject each invalid object.

    Args:
        only_lines: whether the file is known to be NDJSON.

    Raises FileFault where invalid JSON makes the rest of the file unreadable.
    """
    parsers, build, texts_of = layout.parsers, layout.build, _Members(layout.columns, report).texts
    unreadable, not_utf8 = UnreadableValues(layout.columns), ValuesNotUtf8(layout.columns)
    objects = JsonObjects(stream, report, only_lines=only_lines)
    for members in objects:
        try:
            texts = texts_of(members)
            row = build(map(call, parsers, texts))
        except RowFault as fault:
            objects.reject(str(fault))
        except RowSkip:
            report.skip()
        else:
            unreadable.add_record(texts, objects.line)
            if not objects.is_record_utf8:
                not_utf8.add_record(texts, objects.line)
            yield row
    unreadable.report_to(report)
    not_utf8.report_to(report)


class _Members:
    """Finds the texts of columns in objects, in the form that a CSV file would have."""

    def __init__(self, columns: tuple[Column, ...], report: Report) -> None:
        self._columns = columns
        self._report = report
        self._seen: set[str] = set()
        # PERF: 8 of 31 members are used. Finding only these takes a third of the time for all.
        self._used: list[tuple[str, int]] = []

    def texts(self, members: dict[str, Any]) -> list[str]:
        """Return the texts in the order of the columns, empty if missing. Raises RowFault."""
        if not self._seen.issuperset(members):
            self._learn(members)
        texts = [""] * len(self._columns)
        for name, position in self._used:
            value = members.get(name)
            if value is None:
                continue
            label = self._columns[position].label
            if texts[position]:
                raise RowFault(f"{label}: given twice")
            if type(value) is str:
                texts[position] = value
            elif not position:
                # A number may have lost its leading zeros (formats 0.2).
                raise RowFault(f"{label}: not a JSON string")
            elif self._columns[position].is_whole and isinstance(value, JsonNumber):
                raise RowFault(f"{label}: not digits only: {quoted(value)}")
            else:
                texts[position] = text_of(label, value)
        return texts

    def _learn(self, members: Iterable[str]) -> None:
        # SEC: a file with new names in every object must not fill the memory.
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
    """Return the value of a member as text, empty for null.

    Raises RowFault if it is an object or an array (formats 0.6).
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise RowFault(f"{label}: a JSON object or array")
    if isinstance(value, JsonNumber):
        return _plain(value) if "e" in value.lower() else str(value)
    return "" if value is None else str(value)


def _plain(number: str) -> str:
    """Return a number without its exponent, or unchanged if that takes too many digits."""
    try:
        exact = Decimal(number)
    except ArithmeticError:
        return str(number)
    return format(exact, "f") if abs(exact.adjusted()) <= _EXPONENT_MAX else str(number)
