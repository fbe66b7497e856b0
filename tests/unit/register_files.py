"""Read register files in memory, and record what happens to their records."""

import io
from collections.abc import Iterable
from typing import NamedTuple

from app.registers.formats import FORMATS, Format, recognise
from app.registers.formats.changes import Change
from app.registers.formats.report import Unreadable

SKIPPED = "skipped"


class Heard:
    """A report that keeps everything it receives."""

    def __init__(self) -> None:
        self.rejects: list[tuple[int, str]] = []
        self.records: list[str] = []
        self.skipped = 0
        self.notes: list[str] = []
        self.names: list[str] = []
        self.unread: dict[str, int] = {}
        self.unreadable_line: dict[str, int] = {}
        self.nothing: dict[str, int] = {}
        self.altered: dict[str, int] = {}

    def reject(self, line: int, reason: str, record: str) -> None:
        self.rejects.append((line, reason))
        self.records.append(record)

    def skip(self) -> None:
        self.skipped += 1

    def note(self, text: str) -> None:
        self.notes.append(text)

    def unreadable(self, column: str, found: Unreadable) -> None:
        if found.altered:
            self.altered[column] = found.altered
        if found.nothing:
            self.nothing[column] = found.nothing
        if found.values:
            self.unread[column] = found.values
            self.unreadable_line[column] = found.line

    def columns(self, names: Iterable[str]) -> None:
        self.names += names


class Read(NamedTuple):
    """The result of reading a file."""

    changes: list[Change]
    heard: Heard


def read(data: bytes | str, format_: Format | str | None = None) -> Read:
    """Read a whole file in the given format, or in the detected one."""
    data = data.encode() if isinstance(data, str) else data
    if isinstance(format_, str):
        format_ = FORMATS[format_]
    if format_ is None:
        format_ = recognise(data)[0]
    kind = format_.recognise(data)
    assert kind is not None, f"not recognised as {format_.name}"
    heard = Heard()
    return Read(list(format_.rows(io.BytesIO(data), kind, heard)), heard)


def outcome(data: bytes | str, format_: Format | str | None = None) -> Change | str:
    """Read a file of one record: return its change, why it is rejected, or `SKIPPED`."""
    changes, heard = read(data, format_)
    told = [reason for _, reason in heard.rejects] + [SKIPPED] * heard.skipped
    assert len(changes) + len(told) == 1
    return changes[0] if changes else told[0]
