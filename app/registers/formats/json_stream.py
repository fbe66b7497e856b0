"""JSON objects in a stream: one a line (NDJSON), one after the other, or in an array."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, cast

import msgspec

from app.registers.formats.columns import normalised
from app.registers.formats.format import HEAD_BYTES, Report
from app.registers.formats.json_values import Brackets, Splitter
from app.registers.formats.line_blocks import (
    BLOCK_BYTES,
    LINE_BYTES_MAX,
    Overlong,
    blocks,
    cut_off,
    windows_1252,
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EMPTY_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*+\[\s*+\]\s*+")
_NAME = re.compile(rb'("(?:[^"\\]++|\\.)*+")\s*+(:?)|[{}\[\]]', re.DOTALL)


class Number(str):
    """A JSON number with a fraction or an exponent, as it stands: never a float."""

    __slots__ = ()


_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=Number)


def decoded_object(text: bytes | str) -> dict[str, Any]:
    """Decode an object with all its members; ValueError or RecursionError if it is none.

    Numbers with a fraction or an exponent become `Number`, all others integers.
    """
    return _decoder.decode(text)


class Objects:
    """A stream of JSON objects being read; iterate to get them, each as `decode` returns it.

    A broken line of NDJSON is one reject, unless it is the last one and has no line end (D68). The
    other shapes cannot be read on where they break. That, or an end amid an array or an object,
    raises FileFault (formats 0.1, 2). In every shape
    what is JSON but no object that we take, or over the limit of a record, is one reject.

    Args:
        decode: takes the text of an object; raises ValueError or RecursionError if it is none.
        only_lines: read NDJSON, whatever it looks like.
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
        start = self._stream.read(BLOCK_BYTES).removeprefix(_BYTE_ORDER_MARK)
        # One record can be longer than a block: where its line ends, tells the shape (formats 2).
        while b"\n" not in start.lstrip() and len(start) <= LINE_BYTES_MAX:
            if not (block := self._stream.read(BLOCK_BYTES)):
                break
            start += block
        if is_ndjson(start):
            return self._of_lines(cast(BinaryIO, _Rejoined(start, self._stream)))
        return self._of_values(Splitter(start, self._stream))

    @property
    def names(self) -> Iterable[str]:
        """All members of the object that was given out last, whatever `decode` makes of it."""
        return _object_of(self._text) or ()

    def reject(self, reason: str) -> None:
        """Report the object that was given out last."""
        self._report.reject(self._line_of_object(), reason, _decoded_text(self._text))

    def skip(self, reason: str) -> None:
        """Report that the object that was given out last has nothing to do here."""
        self._report.skip(self._line_of_object(), reason)

    def _of_lines(self, stream: BinaryIO) -> Iterator[Any]:
        line = 0
        self._line_of_object = lambda: line
        for block in blocks(stream):
            if isinstance(block, Overlong):
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

    def _of_values(self, splitter: Splitter) -> Iterator[Any]:
        self._line_of_object = lambda: splitter.line
        while splitter.find():
            # PERF: where the next object begins is guessed ten times as fast as brackets are
            # counted; text that decodes as one object is one, whatever was guessed.
            self._text = splitter.guess()
            found = self._decoded(self._text) if self._text else None
            if found is None:
                line = splitter.line
                value = splitter.measure()
                if isinstance(value, Overlong):
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
            return self._decode(text if text.isascii() else _decoded_text(text))
        except (ValueError, RecursionError):
            return None

    def _reject_overlong(self, line: int, overlong: Overlong) -> None:
        reason = f"longer than {LINE_BYTES_MAX} bytes"
        self._report.reject(line, reason, _decoded_text(overlong.start))


def is_empty_array(head: bytes) -> bool:
    """Tell whether a file, by its head, is an array of nothing: the page after an API's last."""
    return _EMPTY_ARRAY.fullmatch(head) is not None and len(head) < HEAD_BYTES


def is_array(head: bytes) -> bool:
    """Tell whether a file, by its head, is an array, which says itself where it ends."""
    return head.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"[")


def line_member_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of all members in the head's whole lines of NDJSON."""
    names: set[str] = set()
    for line in head.removeprefix(_BYTE_ORDER_MARK).splitlines():
        names.update(_object_of(line) or ())
    return frozenset(map(normalised, names))


def member_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of the members of objects in any shape, the last cut off."""
    text = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    names: set[str] = set()
    depth = 0
    of_members = 2 if text.startswith(b"[") else 1
    for token in _NAME.finditer(text):
        if token[1] is None:
            depth += 1 if token[0] in b"{[" else -1
        elif token[2] and depth == of_members:
            names.add(normalised(windows_1252(token[1])))
    # A broken line leaves brackets open; the lines after it stand for themselves.
    return frozenset(names) | line_member_names(head)


def is_ndjson(start: bytes) -> bool:
    """Tell NDJSON from other shapes by its beginning: the first value ends with its line.

    A broken line may seem to go on for ever, or to end with another; then the other lines tell.
    """
    text = start.removeprefix(_BYTE_ORDER_MARK).lstrip()
    first, *others = text.splitlines() or [b""]
    if not first.startswith(b"{"):
        return not first.startswith(b"[")
    end = Brackets().end(text, 0)
    if end > len(first) and _object_of(text[:end]) is not None:
        return False
    if 0 <= end <= len(first):
        rest = first[end:].lstrip()
        return not rest or _object_of(rest[: Brackets().end(rest, 0)]) is None
    return any(line.startswith(b"{") and _object_of(line) for line in others)


def _object_of(text: bytes) -> dict[str, Any] | None:
    try:
        return decoded_object(_decoded_text(text))
    except (ValueError, RecursionError):
        return None


def _decoded_text(text: bytes) -> str:
    """Decode UTF-8; a record that is none is read as Windows-1252 (formats 0.5)."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return windows_1252(text)


def _is_json(text: bytes) -> bool:
    """Tell whether a text is JSON, though perhaps nested too deep or no proper Unicode."""
    try:
        json.loads(_decoded_text(text), parse_int=str, parse_float=str, strict=False)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


class _Rejoined:
    """A stream whose beginning was read already."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        self._start = start
        self._rest = rest

    def read(self, size: int) -> bytes:
        """Give the beginning first, whatever the size."""
        start, self._start = self._start, b""
        return start or self._rest.read(size)
