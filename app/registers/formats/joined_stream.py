"""A stream whose beginning has already been read."""

import io
from typing import Any, BinaryIO, cast

_BUFFER_BYTES = 64 * 1024


def joined_stream(start: bytes, rest: BinaryIO) -> BinaryIO:
    """Return a stream of some bytes and then the rest of another stream."""
    return cast(BinaryIO, io.BufferedReader(_JoinedStream(start, rest), _BUFFER_BYTES))


class _JoinedStream(io.RawIOBase):
    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._start = io.BytesIO(start)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._start.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
