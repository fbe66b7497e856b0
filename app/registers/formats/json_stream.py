"""JSON objects in a stream: one on each line (NDJSON), one after the other, or in an array."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, cast

from app.registers.formats.format import Report
from app.registers.formats.json_head import is_ndjson
from app.registers.formats.json_splitter import JsonSplitter
from app.registers.formats.json_values import decoded_object, decoded_text, find_object
from app.registers.formats.line_blocks import (
    BLOCK_BYTES,
    BYTE_ORDER_MARK,
    LINE_BYTES_MAX,
    OverlongLine,
    cut_off,
    line_blocks,
)


class JsonObjects:
    """The objects of a stream, in their order, each as `decode` returns it.

    A broken line of NDJSON is rejected, unless it is the last one and has no line end (D68). In
    every shape, JSON that is no object, and an object over `LINE_BYTES_MAX`, is rejected. Raises
    FileFault where another shape than NDJSON is broken, and where an array or an object is cut off
    (formats 0.1, 2).

    Args:
        decode: takes the text of an object; raises ValueError or RecursionError if it is none.
        only_lines: whether the stream is known to be NDJSON.
    """

    def __init__(
        self,
        stream: BinaryIO,
        report: Report,
        decode: Callable[[bytes | str], Any] = decoded_object,
        *,
        only_lines: bool = False,
    ) -> None:
        self._stream = stream
        self._report = report
        self._decode = decode
        self._only_lines = only_lines
        self._text = b""
        self._line_of_object: Callable[[], int] = lambda: 1

    def __iter__(self) -> Iterator[Any]:
        if self._only_lines:
            return self._of_lines(self._stream)
        start = self._stream.read(BLOCK_BYTES).removeprefix(BYTE_ORDER_MARK)
        # A record may be longer than a block, and only the end of its line tells the shape.
        while b"\n" not in start.lstrip() and len(start) <= LINE_BYTES_MAX:
            if not (block := self._stream.read(BLOCK_BYTES)):
                break
            start += block
        if is_ndjson(start):
            return self._of_lines(cast(BinaryIO, _Rejoined(start, self._stream)))
        return self._of_values(JsonSplitter(start, self._stream))

    @property
    def names(self) -> Iterable[str]:
        """The names of all members of the object that was yielded last."""
        return find_object(self._text) or ()

    def reject(self, reason: str) -> None:
        """Reject the object that was yielded last."""
        self._report.reject(self._line_of_object(), reason, decoded_text(self._text))

    def skip(self, reason: str) -> None:
        """Skip the object that was yielded last."""
        self._report.skip(self._line_of_object(), reason)

    def _of_lines(self, stream: BinaryIO) -> Iterator[Any]:
        line = 0
        self._line_of_object = lambda: line
        for block in line_blocks(stream):
            if isinstance(block, OverlongLine):
                line += 1
                if block.is_cut_off:
                    raise cut_off(line)
                self._reject_overlong(line, block)
                continue
            # Only the last line of a file can be without an end.
            unended_line = 0 if block.endswith((b"\n", b"\r")) else line + len(block.splitlines())
            for text in block.splitlines():
                line += 1
                self._text = text
                found = self._decoded(text)
                if found is not None:
                    yield found
                elif text and not text.isspace():
                    if line == unended_line and not _is_json(text):
                        raise cut_off(line)
                    self.reject("not a JSON object")

    def _of_values(self, splitter: JsonSplitter) -> Iterator[Any]:
        self._line_of_object = lambda: splitter.line
        while splitter.find():
            # PERF: guessing where the next object begins is ten times as fast as counting brackets.
            # A text that decodes as one object is one, so a wrong guess does no harm.
            self._text = splitter.guess()
            found = self._decoded(self._text) if self._text else None
            if found is None:
                line = splitter.line
                value = splitter.measure()
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
                raise splitter.broken()

    def _decoded(self, text: bytes) -> Any:
        # SEC: nesting too deep ends in RecursionError, every other fault in a ValueError.
        try:
            return self._decode(text if text.isascii() else decoded_text(text))
        except (ValueError, RecursionError):
            return None

    def _reject_overlong(self, line: int, overlong: OverlongLine) -> None:
        reason = f"longer than {LINE_BYTES_MAX} bytes"
        self._report.reject(line, reason, decoded_text(overlong.start))


def _is_json(text: bytes) -> bool:
    """Tell whether a text is JSON, even if it is nested too deeply or not proper Unicode."""
    try:
        json.loads(decoded_text(text), parse_int=str, parse_float=str, strict=False)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


class _Rejoined:
    """A stream whose beginning has been read already."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        self._start = start
        self._rest = rest

    def read(self, size: int) -> bytes:
        """Return the beginning first, whatever the size."""
        start, self._start = self._start, b""
        return start or self._rest.read(size)
