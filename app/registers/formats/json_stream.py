"""Reads JSON objects: one per line (NDJSON), one after the other, or in an array."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from app.registers.formats.format import Report
from app.registers.formats.json_splitter import (
    JsonSplitter,
    decoded_object,
    decoded_text,
    find_object,
    is_ndjson,
)
from app.registers.formats.streams import (
    BLOCK_BYTES,
    BYTE_ORDER_MARK,
    LINE_BYTES_MAX,
    OverlongLine,
    cut_off_fault,
    joined_stream,
    line_blocks,
    windows_1252,
)


class JsonObjects:
    """Iterates over the objects of a stream, each as `decode` returns it.

    In NDJSON it rejects an invalid line, unless that is the last line and has no line end (D68). In
    all files it rejects JSON values that are not objects, and objects over `LINE_BYTES_MAX`. It
    raises FileFault if JSON other than NDJSON is invalid, and if an array or an object is cut off
    (formats 0.1, 2).

    Args:
        decode: returns the object of a text; raises ValueError or RecursionError if the text is not
            a JSON object.
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
        self.is_record_utf8 = True
        """Whether the object that was yielded last is UTF-8."""
        self._line_of_object: Callable[[], int] = lambda: 1

    def __iter__(self) -> Iterator[Any]:
        if self._only_lines:
            return self._of_lines(self._stream)
        start = self._stream.read(BLOCK_BYTES).removeprefix(BYTE_ORDER_MARK)
        # Whether it is NDJSON shows at the first line end. The first record can exceed a block.
        while b"\n" not in start.lstrip() and len(start) <= LINE_BYTES_MAX:
            if not (block := self._stream.read(BLOCK_BYTES)):
                break
            start += block
        if is_ndjson(start):
            return self._of_lines(joined_stream(start, self._stream))
        return self._of_values(JsonSplitter(start, self._stream))

    @property
    def names(self) -> Iterable[str]:
        """The names of all members of the object that was yielded last."""
        return find_object(self._text) or ()

    def line(self) -> int:
        """Return the line of the object that was yielded last."""
        return self._line_of_object()

    def reject(self, reason: str) -> None:
        """Reject the object that was yielded last."""
        self._report.reject(self._line_of_object(), reason, decoded_text(self._text))

    def _of_lines(self, stream: BinaryIO) -> Iterator[Any]:
        line = 0
        self._line_of_object = lambda: line
        for block in line_blocks(stream):
            if isinstance(block, OverlongLine):
                line += 1
                if block.is_cut_off:
                    raise cut_off_fault(line)
                self._reject_overlong(line, block)
                continue
            # Only the last line of a file can lack a line end.
            unended_line = 0 if block.endswith((b"\n", b"\r")) else line + len(block.splitlines())
            for text in block.splitlines():
                line += 1
                self._text = text
                found = self._decoded(text)
                if found is not None:
                    yield found
                elif text and not text.isspace():
                    if line == unended_line and not _is_json(text):
                        raise cut_off_fault(line)
                    self.reject("not a JSON object")

    def _of_values(self, splitter: JsonSplitter) -> Iterator[Any]:
        self._line_of_object = lambda: splitter.line
        while splitter.find():
            # PERF: guessing where the next object begins is ten times as fast as counting brackets.
            # A wrong guess does no harm, because its text does not decode as one object.
            self._text = splitter.guess()
            found = self._decoded(self._text) if self._text else None
            if found is None:
                line = splitter.line
                value = splitter.scan()
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
                raise splitter.invalid_fault()

    def _decoded(self, text: bytes) -> Any:
        self.is_record_utf8 = True
        # SEC: nesting that is too deep raises RecursionError; everything else raises ValueError.
        try:
            return self._decode(text if text.isascii() else self._not_ascii(text))
        except (ValueError, RecursionError):
            return None

    def _not_ascii(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            self.is_record_utf8 = False
            return windows_1252(text)

    def _reject_overlong(self, line: int, overlong: OverlongLine) -> None:
        reason = f"longer than {LINE_BYTES_MAX} bytes"
        self._report.reject(line, reason, decoded_text(overlong.start))


def _is_json(text: bytes) -> bool:
    """Return whether a text is JSON, even if its nesting is too deep or its Unicode is invalid."""
    try:
        json.loads(decoded_text(text), parse_int=str, parse_float=str, strict=False)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True
