"""Streams for reading register files. They raise FileFault and count the bytes."""

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
from app.registers.formats.columns import FileFault
from app.storage.file_lock import user_name

OnData = Callable[[bytes], object]
"""A function that is called with the bytes that were read."""
# SEC: compression makes a register 5 to 30 times smaller, and a decompression bomb 1,000 times.
_RATIO_MAX = 200
_UNPACKED_BYTES_FREE = 64 * 1024 * 1024
# The errors that the standard library raises for a container that is cut off or damaged.
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
# Errors of the disk, the file server or this process. The file can perhaps be read later.
_TRANSIENT = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def printable(text: str) -> str:
    """Return a text with all unprintable characters escaped, so that it is one line.

    SEC: others choose the names of files, which are written to terminals, logs and the history.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


@contextmanager
def raising_file_faults(name: str) -> Iterator[None]:
    """Turn errors of the operating system and of containers into FileFault.

    Args:
        name: the name of the file in the message.

    Raises Hindered if the cause is not the file.
    """
    try:
        yield
    except CONTAINER_FAULTS as error:
        if isinstance(error, OSError) and error.errno in _TRANSIENT:
            raise Hindered(f"{printable(name)} cannot be read: {error.strerror}") from error
        raise FileFault(_reason(error), printable(name)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "The file is cut off."
    if isinstance(error, PermissionError):
        return f"The file cannot be read: {error.strerror}. Let the user {user_name()} read it."
    if isinstance(error, OSError) and error.strerror:
        return f"The file cannot be read: {error.strerror}."
    if isinstance(error, NotImplementedError):
        return f"The zip uses an unsupported feature: {error}."
    return f"The file is damaged: {error}."


class GuardedStream(io.RawIOBase):
    """A stream that fills each buffer, raises only FileFault, and refuses decompression bombs.

    Args:
        bytes_in: returns how many compressed bytes `inner` has read; None if it is not compressed.
    """

    def __init__(
        self, inner: BinaryIO, name: str, bytes_in: Callable[[], int] | None = None
    ) -> None:
        super().__init__()
        self.name = name
        self.bytes_out = 0
        self.last_byte = b""
        self.on_data: OnData | None = None
        self._inner = inner
        self._bytes_in = bytes_in

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or read to the end of the stream. Raises FileFault."""
        filled = 0
        with raising_file_faults(self.name):
            while filled < len(buffer):
                data = self._inner.read(len(buffer) - filled)
                if not data:
                    break
                buffer[filled : filled + len(data)] = data
                filled += len(data)
        self.bytes_out += filled
        if filled:
            self.last_byte = bytes(buffer[filled - 1 : filled])
        if self.on_data is not None:
            self.on_data(buffer[:filled])
        if (
            self._bytes_in is not None
            and self.bytes_out > _UNPACKED_BYTES_FREE
            and self.bytes_out > _RATIO_MAX * self._bytes_in()
        ):
            raise FileFault(
                f"The file unpacks to more than {_RATIO_MAX} times its size, as no register does.",
                self.name,
            )
        return filled
