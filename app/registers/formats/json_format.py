"""Formats that are JSON objects: rows from objects, by the names of their members."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from decimal import Decimal
from operator import call
from typing import Any, BinaryIO

from app.registers.formats.changes import Change, Row
from app.registers.formats.columns import Column, KnownColumns, Layout, normalised
from app.registers.formats.faults import RowFault, RowSkip
from app.registers.formats.format import Format, Report
from app.registers.formats.json_head import is_array, member_names
from app.registers.formats.json_stream import JsonObjects
from app.registers.formats.json_values import JsonNumber
from app.registers.formats.values import shown
from app.storage.tables import Kind

_DIGITS_MAX = 30
_NAMES_MAX = 10_000


class JsonFormat(Format):
    """JSON objects, one on each line, one after the other, or in an array.

    A subclass says what their members are.
    """

    ignored_members: frozenset[str] | None = None
    """Normalised names of the source's members that are not read; None: any may be there."""
    is_partial = False
    """Whether a merge keeps the values of members that a file lacks; see `KnownColumns`."""

    @abstractmethod
    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return what a file with these members holds, None if it has another format.

        Args:
            names: the names of the members of all objects in its head, normalised.
        """

    @abstractmethod
    def layout(self, kind: Kind) -> Layout:
        """Return how the objects of one file become rows; new for each file."""

    def recognise(self, head: bytes) -> Kind | None:
        """Judge by the names of the members of all objects in the head."""
        return self.kind_of(member_names(head))

    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the members that objects may have."""
        columns = self.layout(kind).columns
        return KnownColumns(columns, self.ignored_members, is_partial=self.is_partial)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        """Yield a row for each object."""
        return json_rows(stream, self.layout(kind), report)

    def ends_with_line(self, head: bytes) -> bool:
        """Tell whether it is no array: an array marks its own end."""
        return not is_array(head)


def json_rows(
    stream: BinaryIO, layout: Layout, report: Report, *, only_lines: bool = False
) -> Iterator[Row]:
    """Yield a row for each object; an object with any fault is one reject.

    Args:
        only_lines: whether the file is known to be NDJSON.

    Raises FileFault where the JSON cannot be read on.
    """
    parsers, build, texts_of = layout.parsers, layout.build, _Members(layout.columns, report).texts
    objects = JsonObjects(stream, report, only_lines=only_lines)
    for members in objects:
        try:
            row = build(map(call, parsers, texts_of(members)))
        except RowFault as fault:
            objects.reject(str(fault))
        except RowSkip as skip:
            objects.skip(str(skip))
        else:
            yield row


class _Members:
    """Finds the columns' texts in objects, as a CSV file would have them."""

    def __init__(self, columns: tuple[Column, ...], report: Report) -> None:
        self._columns = columns
        self._report = report
        self._seen: set[str] = set()
        # PERF: 8 of 31 members are used. Looking for those takes a third of looking at all.
        self._used: list[tuple[str, int]] = []

    def texts(self, members: dict[str, Any]) -> list[str]:
        """Return the texts in the order of the columns, empty where missing; raises RowFault."""
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
                raise RowFault(f"{label}: not digits only: {shown(value)}")
            else:
                texts[position] = text_of(label, value)
        return texts

    def _learn(self, members: Iterable[str]) -> None:
        # SEC: objects that all have new names must not fill the memory.
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
    """Return the value of a member as a text, empty if it is null.

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
    """Return a number with an exponent written out, unless that takes too many digits."""
    try:
        exact = Decimal(number)
    except ArithmeticError:
        return str(number)
    return format(exact, "f") if abs(exact.adjusted()) <= _DIGITS_MAX else str(number)
