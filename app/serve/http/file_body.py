"""An answer's body that is a file, which the worker sends piece by piece (D138)."""

from collections.abc import Iterator
from pathlib import Path

_PIECE_BYTES = 256 * 1024


class FileBody:
    """The bytes of a file that nobody changes. Raises OSError if it does not exist.

    It is opened when the first piece is asked for, and closed after the last one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.length = path.stat().st_size

    def __iter__(self) -> Iterator[bytes]:
        """Yield as many bytes as `length` says. Raises OSError if there are fewer."""
        left = self.length
        with open(self._path, "rb") as file:
            while left:
                piece = file.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise OSError(f"{self._path} became shorter")
                left -= len(piece)
                yield piece
