"""How many records a load can still read, at most: when to give up on it (D70)."""

from collections.abc import Sequence

from app.registers.formats import Format
from app.registers.formats.delimited import columns_in
from app.registers.reading.sources import Member, unpacked_bytes_of

_RECORD_BYTES_MIN = 2
"""A character and a line end."""


class Remaining:
    """Knows how many records are still to come, at most, while the files of a load are read."""

    def __init__(self, files: Sequence[str], *, are_trusted: bool = True) -> None:
        sizes = [unpacked_bytes_of(file, is_trusted=are_trusted) for file in files]
        self._bytes_total = None if None in sizes else sum(size or 0 for size in sizes)
        self._member_ends_at: int | None = 0
        self._record_bytes = _RECORD_BYTES_MIN

    def begin(self, member: Member, format_: Format, read_bytes: int) -> None:
        """Take the next member.

        Args:
            read_bytes: what all members before it had.
        """
        size = member.unpacked_bytes
        self._member_ends_at = None if size is None else read_bytes + size
        self._record_bytes = _record_bytes_min(format_, member.head)

    def records_max(self, read_bytes: int) -> int | None:
        """Return how many records, but rejects, can still come; None if nobody knows.

        Args:
            read_bytes: of all members; all of their records were counted.
        """
        if self._bytes_total is None or self._member_ends_at is None:
            return None
        here = max(0, self._member_ends_at - read_bytes)
        elsewhere = max(0, self._bytes_total - max(self._member_ends_at, read_bytes))
        # The last record of a file may do without its line end.
        return here // self._record_bytes + elsewhere // _RECORD_BYTES_MIN + 1


def _record_bytes_min(format_: Format, head: bytes) -> int:
    """Return the size of the shortest record that is not rejected, with its line end."""
    if getattr(format_, "header_lines", None) == 1:
        # Separators and a line end; a record of nothing else can be one to skip.
        return max(_RECORD_BYTES_MIN, columns_in(head, getattr(format_, "delimiter", None)))
    least: int = getattr(format_, "record_bytes_min", _RECORD_BYTES_MIN)
    return least
