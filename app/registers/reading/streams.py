"""Streams for reading register files: the bytes of a container, and the content in it."""

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


@contextmanager
def raising_file_faults(name: str) -> Iterator[None]:
    """Turn errors of the operating system and of containers into FileFault.

    Args:
        name: the name of the file in the message, printable.

    Raises Hindered if the cause is not the file.
    """
    try:
        yield
    except CONTAINER_FAULTS as error:
        if isinstance(error, OSError) and error.errno in _TRANSIENT:
            raise Hindered(f"{name} cannot be read: {error.strerror}") from error
        raise FileFault(_reason(error), name) from error


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
        self._inner = inner
        self._bytes_in = bytes_in

    def readable(self) -> bool:
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


_HOLE = bytes(512)
"""No text has so many NULs in a row. Sparse and parallel uploads and power losses leave whole
blocks of them, of which 512 bytes are the smallest."""
_END = b"\x1a"
_END_BYTES_MAX = 512


class Content(io.RawIOBase):
    """The decompressed content of a register file, without the ^Z after its last line.

    DOS and COBOL end a file with one ^Z (1A), or fill its last block with them. A line end or NULs
    can follow.

    Args:
        inner: reading it raises FileFault.
        on_data: is called with all bytes, in order.
    """

    def __init__(self, inner: BinaryIO, name: str, on_data: OnData) -> None:
        super().__init__()
        self.name = name
        self.last_byte = b""
        self._inner = inner
        self._on_data = on_data
        self._ready = b""
        """Bytes that were read, and are to be returned."""
        self._held = b""
        """The bytes after them, which may be the end of the file."""
        self._zeros = b""
        """The NULs at the end of what was read."""
        self._bytes_before = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read up to the size of a buffer. Raises FileFault for a block of NULs."""
        while not self._ready:
            read = self._inner.read(len(buffer))
            self._require_no_hole(read)
            self._on_data(read)
            data = self._held + read
            text = data.rstrip(b"\r\n\x1a\0")
            ended = data.find(_END, len(text))
            if ended < 0 or len(data) - ended > _END_BYTES_MAX:
                ended = len(data)
            self._ready, self._held = data[:ended], data[ended:]
            if not read:
                break
        returned, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        self.last_byte = returned[-1:] or self.last_byte
        buffer[: len(returned)] = returned
        return len(returned)

    def _require_no_hole(self, read: bytes) -> None:
        data = self._zeros + read
        hole = data.find(_HOLE)
        if hole >= 0:
            begin = f"{self._bytes_before - len(self._zeros) + hole:,}"
            rest = data[hole:]
            while rest and not rest.strip(b"\0"):
                rest = self._inner.read(len(_HOLE) * 128)
            raise FileFault(
                f"From byte {begin} on there is a block of NUL bytes, so the upload is incomplete; "
                "upload the file again."
                if rest
                else f"From byte {begin} to its end the file has only NUL bytes: the upload is "
                "incomplete, or another program padded it. Upload it again, without padding.",
                self.name,
            )
        self._zeros = data[len(data.rstrip(b"\0")) :]
        self._bytes_before += len(read)
