"""Files of JSON objects: one per line (NDJSON), one after the other, or in an array."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, BinaryIO

from app.registers.formats.changes import Change
from app.registers.formats.columns import Column, RowFault, normalised
from app.registers.formats.format import NamedFormat, rows_of
from app.registers.formats.json_splitter import (
    JsonNumber,
    JsonSplitter,
    decoded_object,
    find_object,
    is_array,
    is_ndjson,
    member_names,
)
from app.registers.formats.lines import (
    BLOCK_BYTES,
    BYTE_ORDER_MARK,
    LINE_BYTES_MAX,
    OverlongLine,
    cut_off_fault,
    decoded_text,
    joined_stream,
    line_blocks,
    windows_1252,
)
from app.registers.formats.report import Report, UnreadableValues
from app.registers.formats.values import quoted
from app.storage.tables import Kind

_EXPONENT_MAX = 30
_MINUS_ZERO = re.compile(rb":\s*+-0[\s,}]")
_NAMES_MAX = 10_000


class JsonFormat(NamedFormat):
    """JSON objects. A subclass declares their members."""

    def names_in(self, head: bytes) -> frozenset[str]:
        return member_names(head)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Change]:
        """Yield one row or deletion per valid object; reject each invalid object."""
        layout = self.layout(kind)
        objects = JsonObjects(stream, report, only_lines=self.header_lines is not None)
        texts_of = _Members(layout.columns, report, objects).texts
        return rows_of(objects, texts_of, layout, report, UnreadableValues(layout.columns))

    def ends_with_line(self, head: bytes) -> bool:
        """Return False for an array, which marks its own end, and True for all other files."""
        return not is_array(head)


class _Members:
    """Finds the texts of columns in objects, in the form that a CSV file would have."""

    def __init__(self, columns: tuple[Column, ...], report: Report, objects: "JsonObjects") -> None:
        self._objects = objects
        self._columns = columns
        self._report = report
        self._seen: set[str] = set()
        # PERF: 8 of 31 members are used. Finding only these takes a third of the time for all.
        self._used: list[tuple[str, int]] = []

    def texts(self, members: Mapping[str, object]) -> list[str]:
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
                # A number may have lost its leading zeros.
                raise RowFault(f"{label}: not a JSON string")
            elif self._columns[position].is_whole and self._has_lost(value):
                raise RowFault(f"{label}: not digits only: {quoted(str(value))}")
            else:
                texts[position] = text_of(label, value)
        return texts

    def _has_lost(self, value: object) -> bool:
        """Tell whether a number was written otherwise than with its digits only."""
        is_zero = type(value) is int and value == 0
        return isinstance(value, JsonNumber) or (is_zero and self._objects.has_minus_zero())

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


def text_of(label: str, value: object) -> str:
    """Return the value of a member as text, empty for null.

    Raises RowFault if it is an object or an array.
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


@dataclass
class JsonObjects:
    """Iterates over the objects of a stream, each as `decode` returns it.

    In NDJSON it rejects an invalid line, unless that is the last line and has no line end. In
    all files it rejects JSON values that are not objects, and objects over `LINE_BYTES_MAX`. It
    raises FileFault if JSON other than NDJSON is invalid, and if an array or an object is cut off.
    """

    stream: BinaryIO
    report: Report
    decode: Callable[[bytes | str], Any] = decoded_object
    """Returns the object of a text; raises ValueError or RecursionError if it is none."""
    only_lines: bool = False
    """Whether the stream is known to be NDJSON."""
    is_record_utf8: bool = field(default=True, init=False)
    """Whether the object that was yielded last is UTF-8."""
    line: Callable[[], int] = field(default=lambda: 1, init=False)
    """Returns the line of the object that was yielded last."""
    _text: bytes = field(default=b"", init=False)

    def __iter__(self) -> Iterator[Any]:
        if self.only_lines:
            return self._of_lines(self.stream)
        start = self.stream.read(BLOCK_BYTES).removeprefix(BYTE_ORDER_MARK)
        # Whether it is NDJSON shows at the first line end. The first record can exceed a block.
        while b"\n" not in start.lstrip() and len(start) <= LINE_BYTES_MAX:
            if not (block := self.stream.read(BLOCK_BYTES)):
                break
            start += block
        if is_ndjson(start):
            return self._of_lines(joined_stream(start, self.stream))
        return self._of_values(JsonSplitter(start, self.stream))

    @property
    def names(self) -> Iterable[str]:
        """The names of all members of the object that was yielded last."""
        return find_object(self._text) or ()

    def has_minus_zero(self) -> bool:
        """Return whether the object that was yielded last has `-0`, which decodes as 0."""
        return _MINUS_ZERO.search(self._text) is not None

    def reject(self, reason: str) -> None:
        """Reject the object that was yielded last."""
        self.report.reject(self.line(), reason, decoded_text(self._text))

    def _of_lines(self, stream: BinaryIO) -> Iterator[Any]:
        line = 0
        self.line = lambda: line
        for block in line_blocks(stream):
            if isinstance(block, OverlongLine):
                line += 1
                if block.is_cut_off:
                    raise cut_off_fault(line)
                self._reject_overlong(line, block)
                continue
            # Only the last line of a file can lack a line end.
            unended_line = 0 if block.endswith((b"\n", b"\r")) else line + len(block.splitlines())
            for text in block.splitlines():
                line += 1
                self._text = text
                found = self._decoded(text)
                if found is not None:
                    yield found
                elif text and not text.isspace():
                    if line == unended_line and not _is_json(text):
                        raise cut_off_fault(line, is_padded=text.endswith(b"\0"))
                    self.reject("not a JSON object")

    def _of_values(self, splitter: JsonSplitter) -> Iterator[Any]:
        self.line = lambda: splitter.line
        while splitter.find():
            # PERF: guessing where the next object begins is ten times as fast as counting brackets.
            # A wrong guess does no harm, because its text does not decode as one object.
            self._text = splitter.guess()
            found = self._decoded(self._text) if self._text else None
            if found is None:
                line = splitter.line
                value = splitter.scan()
                if isinstance(value, OverlongLine):
                    self._reject_overlong(line, value)
                    continue
                self._text = value
                found = self._decoded(value)
            if found is not None:
                yield found
            elif _is_json(self._text):
                self.reject("not a JSON object")
            else:
                raise splitter.invalid_fault()

    def _decoded(self, text: bytes) -> Any:
        self.is_record_utf8 = True
        # SEC: nesting that is too deep raises RecursionError; everything else raises ValueError.
        try:
            return self.decode(text if text.isascii() else self._not_ascii(text))
        except (ValueError, RecursionError):
            return None

    def _not_ascii(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            self.is_record_utf8 = False
            return windows_1252(text)

    def _reject_overlong(self, line: int, overlong: OverlongLine) -> None:
        reason = f"longer than {LINE_BYTES_MAX:,} bytes"
        self.report.reject(line, reason, decoded_text(overlong.start))


def _is_json(text: bytes) -> bool:
    """Return whether a text is JSON, even if its nesting is too deep or its Unicode is invalid."""
    try:
        json.loads(decoded_text(text), parse_int=str, parse_float=str, strict=False)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True
