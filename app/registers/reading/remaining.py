"""How many records a load can still read at most, to give up on it early (D70)."""

from collections.abc import Sequence

from app.registers.formats import Format
from app.registers.formats.format import RECORD_BYTES_MIN
from app.registers.reading.sources import Member, unpacked_bytes_of


class Remaining:
    """Estimates how many records are still to come while the files of a load are read."""

    def __init__(self, files: Sequence[str], *, are_trusted: bool = True) -> None:
        sizes = [unpacked_bytes_of(file, is_trusted=are_trusted) for file in files]
        self._bytes_total = None if None in sizes else sum(size or 0 for size in sizes)
        self._member_ends_at: int | None = 0
        self._record_bytes_min = RECORD_BYTES_MIN

    def begin(self, member: Member, format_: Format, bytes_before: int) -> None:
        """Go to the next member.

        Args:
            bytes_before: how many bytes, decompressed, all members before it had.
        """
        size = member.unpacked_bytes
        self._member_ends_at = None if size is None else bytes_before + size
        self._record_bytes_min = format_.record_bytes_min(member.head)

    def records_max(self, bytes_counted: int) -> int | None:
        """Return how many records that are no rejects can still come; None if nobody knows.

        Args:
            bytes_counted: how many bytes of all members the records counted so far took.
        """
        if self._bytes_total is None or self._member_ends_at is None:
            return None
        here = max(0, self._member_ends_at - bytes_counted)
        elsewhere = max(0, self._bytes_total - max(self._member_ends_at, bytes_counted))
        # The last record of a file may have no line end.
        return here // self._record_bytes_min + elsewhere // RECORD_BYTES_MIN + 1
