"""Streams that a register file is read through: they raise FileFault, and know how far they are."""

import errno
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from app.errors import Hindered
from app.registers.formats.format import FileFault

Heard = Callable[[bytes], object]
# SEC: registers are packed 5 to 30 times smaller, a bomb 1,000 times; it would fill the disk.
_RATIO_MAX = 200
_UNPACKED_BYTES_FREE = 64 * 1024 * 1024
# What the standard library raises over a container that is cut off or damaged.
CONTAINER_FAULTS = (
    EOFError,
    OSError,
    ValueError,
    IndexError,
    RuntimeError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
)
# Of the disk, the server of files, or this process; the file may be read another time.
_PASSING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def printable(text: str) -> str:
    """Return a text on one line in which nothing is hidden: other characters are escaped.

    SEC: names of files are other people's, and end up on terminals, in logs and in the history.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


@contextmanager
def faults_of(name: str) -> Iterator[None]:
    """Turn what the operating system and the containers raise into FileFault.

    Raises Hindered if the file is not to blame.
    """
    try:
        yield
    except CONTAINER_FAULTS as error:
        if isinstance(error, OSError) and error.errno in _PASSING:
            raise Hindered(f"{printable(name)} cannot be read: {error.strerror}") from error
        raise FileFault(_reason(error), printable(name)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "The file is cut off."
    if isinstance(error, OSError) and error.strerror:
        return f"The file cannot be read: {error.strerror}."
    if isinstance(error, NotImplementedError):
        return f"The zip uses something that we do not read: {error}."
    return f"The file is damaged: {error}."


class Counted(io.RawIOBase):
    """A pipe that knows how much was read from it."""

    def __init__(self, pipe: BinaryIO) -> None:
        super().__init__()
        self._pipe = pipe
        self._bytes_read = 0

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._bytes_read

    def read(self, size: int = -1) -> bytes:
        """Read, and count."""
        data = self._pipe.read(size)
        self._bytes_read += len(data)
        return data


class Guarded(io.RawIOBase):
    """Fills every buffer to its end, and raises nothing but FileFault.

    Args:
        bytes_in: how many bytes came into what unpacks `inner`, if something does.
    """

    def __init__(
        self, inner: BinaryIO, name: str, bytes_in: Callable[[], int] | None = None
    ) -> None:
        super().__init__()
        self.name = name
        self.bytes_out = 0
        self.last_byte = b""
        self.heard: Heard | None = None
        self._inner = inner
        self._bytes_in = bytes_in

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, unless the stream ends before. Raises FileFault."""
        filled = 0
        with faults_of(self.name):
            while filled < len(buffer):
                data = self._inner.read(len(buffer) - filled)
                if not data:
                    break
                buffer[filled : filled + len(data)] = data
                filled += len(data)
        self.bytes_out += filled
        if filled:
            self.last_byte = bytes(buffer[filled - 1 : filled])
        if self.heard is not None:
            self.heard(buffer[:filled])
        if self._bytes_in is not None and self.bytes_out > _UNPACKED_BYTES_FREE:
            self._require_no_bomb(self._bytes_in())
        return filled

    def _require_no_bomb(self, bytes_in: int) -> None:
        if self.bytes_out > _RATIO_MAX * bytes_in:
            raise FileFault(
                f"It unpacks to more than {_RATIO_MAX} times its size, as no register does.",
                self.name,
            )
