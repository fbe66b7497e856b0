"""Estimates how many records a load can still read, to end a load with too many rejects (D70)."""

from collections.abc import Sequence

from app.registers.formats import Format
from app.registers.formats.format import RECORD_BYTES_MIN
from app.registers.reading.sources import InputFile, unpacked_bytes_of


class Remaining:
    """Estimates the records that are left while the files of a load are read."""

    def __init__(self, files: Sequence[str], *, are_trusted: bool = True) -> None:
        sizes = [unpacked_bytes_of(file, is_trusted=are_trusted) for file in files]
        self._bytes_total = None if None in sizes else sum(size or 0 for size in sizes)
        self._file_ends_at: int | None = 0
        self._record_bytes_min = RECORD_BYTES_MIN

    def begin(self, file: InputFile, format_: Format, bytes_before: int) -> None:
        """Go to the next file.

        Args:
            bytes_before: the number of decompressed bytes in all files before it.
        """
        size = file.unpacked_bytes
        self._file_ends_at = None if size is None else bytes_before + size
        self._record_bytes_min = format_.record_bytes_min(file.head)

    def records_max(self, bytes_counted: int) -> int | None:
        """Return the maximum number of valid records that can follow, or None if it is unknown.

        Args:
            bytes_counted: the size of the records counted so far in all files, in decompressed
                bytes.
        """
        if self._bytes_total is None or self._file_ends_at is None:
            return None
        in_this_file = max(0, self._file_ends_at - bytes_counted)
        in_other_files = max(0, self._bytes_total - max(self._file_ends_at, bytes_counted))
        # The last record of a file can lack a line end, hence the 1.
        return in_this_file // self._record_bytes_min + in_other_files // RECORD_BYTES_MIN + 1
