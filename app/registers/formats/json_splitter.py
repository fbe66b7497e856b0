"""Splits a stream into JSON values, in bounded memory."""

import re
from typing import Any, BinaryIO

import msgspec

from app.registers.formats.columns import FileFault, normalised
from app.registers.formats.format import HEAD_BYTES
from app.registers.formats.lines import (
    BLOCK_BYTES,
    BYTE_ORDER_MARK,
    LINE_BYTES_MAX,
    SHOWN_BYTES,
    OverlongLine,
    decoded_text,
    windows_1252,
)

_BLANKS = b" \t\r\n"
_BLANK = re.compile(rb"[ \t\r\n]*+")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(")?|[{}\[\]]', re.DOTALL)
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+(")?', re.DOTALL)
_SCALAR = re.compile(rb'[^\s,:\[\]{}"]++')
_FIRST_NAME = re.compile(rb'\{[ \t\r\n]*+"[^"\\]{1,100}+"')


class JsonSplitter:
    """Splits a stream of values that come one after the other or in arrays.

    Call `find` to go to the next value. Then call `scan` to get it. `guess` is faster than `scan`,
    but the caller must check that its result is a JSON value. About one value is in memory at a
    time.
    """

    def __init__(self, start: bytes, stream: BinaryIO) -> None:
        """Split a stream whose first bytes, `start`, have already been read."""
        self._text = start
        self._stream = stream
        self._start = 0
        self._end = 0
        self._in_array = False
        self._first_name = b""
        self._line = 1
        self._line_counted_to = 0

    @property
    def line(self) -> int:
        """The line on which the current value begins, counted from 1.

        PERF: lines are counted only when this is read.
        """
        self._count_lines()
        return self._line

    def find(self) -> bool:
        """Go to the next value. Return False at the end of the stream. Raises FileFault."""
        byte = self._next_byte()
        if self._in_array and byte == b",":
            byte = self._next_byte(skip=1)
            if byte == b"]":
                raise self.invalid_fault()
        elif self._in_array and byte != b"]" and byte:
            raise self.invalid_fault()
        if self._in_array and byte == b"]":
            self._in_array = False
            byte = self._next_byte(skip=1)
        # A file can have several arrays, such as the joined pages of an API's answer.
        while not self._in_array and byte == b"[":
            byte = self._next_byte(skip=1)
            self._in_array = byte != b"]"
            if byte == b"]":
                byte = self._next_byte(skip=1)
        if self._in_array and not byte:
            raise FileFault("The JSON array is cut off; get the complete file.")
        return bool(byte)

    def guess(self) -> bytes:
        """Return the text before the next object that begins with the same member as the last one.

        Return an empty text if no such object is in memory.
        """
        if not self._first_name:
            return b""
        end = self._text.find(self._first_name, self._start + 1)
        text = self._text[self._start : end].rstrip(_BLANKS) if end >= 0 else b""
        if self._in_array:
            text = text.removesuffix(b",").rstrip(_BLANKS)
        self._end = self._start + len(text)
        return text if len(text) <= LINE_BYTES_MAX else b""

    def scan(self) -> bytes | OverlongLine:
        """Return the current value, up to its closing bracket. Raises FileFault."""
        if self._text[self._start] not in b'{["':
            return self._scalar()
        brackets, scanned, overlong = BracketScanner(), 0, None
        while (end := brackets.end(self._text, self._start + scanned)) < 0:
            scanned = brackets.scanned - self._start
            if overlong is None and scanned > LINE_BYTES_MAX:
                overlong = self._overlong()
            if overlong is not None:
                self._go_to(brackets.scanned)
                scanned = 0
            if not self._read_on():
                raise FileFault("The JSON is cut off; get the complete file.")
        self._end = end
        if end - self._start > LINE_BYTES_MAX:
            overlong = self._overlong()
        if overlong is not None:
            return overlong
        name = _FIRST_NAME.match(self._text, self._start)
        self._first_name = name[0] if name else b""
        return self._text[self._start : end]

    def invalid_fault(self) -> FileFault:
        """Return the fault of a file that is not valid JSON at the current value."""
        return FileFault(f"The JSON is invalid at line {self.line}.")

    def _scalar(self) -> bytes:
        """Return the current value, a number or a word."""
        while (match := _SCALAR.match(self._text, self._start)) is not None:
            self._end = match.end()
            length = self._end - self._start
            if self._end < len(self._text) or length > LINE_BYTES_MAX or not self._read_on():
                return match[0][:LINE_BYTES_MAX]
        raise self.invalid_fault()

    def _next_byte(self, skip: int = 0) -> bytes:
        """Go past the current value and any blanks. Return the byte there, or b"" at the end.

        Args:
            skip: how many bytes after the current value to go past as well.
        """
        self._end += skip
        while True:
            blank = _BLANK.match(self._text, self._end)
            position = blank.end() if blank else self._end
            if position < len(self._text):
                self._go_to(position)
                return self._text[position : position + 1]
            # A CR at the end of the text can be the first half of a CRLF.
            self._go_to(position - self._text.endswith(b"\r", self._end))
            if not self._read_on():
                self._go_to(len(self._text))
                return b""

    def _go_to(self, position: int) -> None:
        self._start = self._end = position

    def _count_lines(self) -> None:
        since = self._line_counted_to
        self._line += self._text.count(b"\n", since, self._start)
        if returns := self._text.count(b"\r", since, self._start):
            self._line += returns - self._text.count(b"\r\n", since, self._start)
        self._line_counted_to = self._start

    def _read_on(self) -> bool:
        """Read more and drop the text before the current value. Return False at the end."""
        chunk = self._stream.read(BLOCK_BYTES)
        self._count_lines()
        self._line_counted_to = 0
        self._text = self._text[self._start :] + chunk
        self._end -= self._start
        self._start = 0
        return bool(chunk)

    def _overlong(self) -> OverlongLine:
        return OverlongLine(self._text[self._start : self._start + SHOWN_BYTES], 0)


class BracketScanner:
    """Finds the end of an object, an array or a string, whose text can come in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self.scanned = 0
        """The position from which to continue if the end was not found."""

    def end(self, text: bytes, start: int) -> int:
        """Return the position after the value, or -1 if this text does not contain its end."""
        if self._in_string:
            rest = _REST_OF_STRING.match(text, start)
            start = self.scanned = rest.end() if rest else start
            if rest is None or not rest[1]:
                return -1
            self._in_string = False
            if not self._depth:
                return start
        for token in _TOKEN.finditer(text, start):
            first = token[0][:1]
            if first == b'"':
                self._in_string = not token[1]
            else:
                self._depth += 1 if first in b"{[" else -1
            if self._in_string:
                self.scanned = token.end()
                return -1
            if self._depth <= 0:
                return token.end()
        self.scanned = len(text)
        return -1


# Decodes JSON objects without loss of digits.


class JsonNumber(str):
    """The text of a JSON number with a fraction or an exponent. It never becomes a float."""

    __slots__ = ()


_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=JsonNumber)


def decoded_object(text: bytes | str) -> dict[str, Any]:
    """Return the members of a JSON object.

    Numbers without a fraction or an exponent become integers; all others become `JsonNumber`.
    Raises ValueError or RecursionError if the text is not a JSON object.
    """
    return _decoder.decode(text)


def find_object(text: bytes) -> dict[str, Any] | None:
    """Return the members of a JSON object, or None if the text is not a JSON object."""
    try:
        return decoded_object(decoded_text(text))
    except (ValueError, RecursionError):
        return None


# Finds the syntax of a JSON file and the names of its members by the head of the file.

_EMPTY_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*+\[\s*+\]\s*+")
_NAME = re.compile(rb'("(?:[^"\\]++|\\.)*+")\s*+(:?)|[{}\[\]]', re.DOTALL)


def is_empty_array(head: bytes) -> bool:
    """Return whether a file is an empty array, such as the page after the last page of an API."""
    return _EMPTY_ARRAY.fullmatch(head) is not None and len(head) < HEAD_BYTES


def is_array(head: bytes) -> bool:
    """Return whether a file is an array, which marks its own end."""
    return head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")


def is_ndjson(head: bytes) -> bool:
    """Return whether a file has one value per line.

    The first line decides. If it is not valid JSON, the other lines decide.
    """
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    first, *others = text.splitlines() or [b""]
    if not first.startswith(b"{"):
        return not first.startswith(b"[")
    end = BracketScanner().end(text, 0)
    if end > len(first) and find_object(text[:end]) is not None:
        return False
    if 0 <= end <= len(first):
        rest = first[end:].lstrip()
        return not rest or find_object(rest[: BracketScanner().end(rest, 0)]) is None
    return any(line.startswith(b"{") and find_object(line) for line in others)


def line_member_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of the members of all complete lines of NDJSON."""
    names: set[str] = set()
    for line in head.removeprefix(BYTE_ORDER_MARK).splitlines():
        names.update(find_object(line) or ())
    return frozenset(map(normalised, names))


def member_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of the members of all objects, even if the last is cut off."""
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    names: set[str] = set()
    depth = 0
    depth_of_members = 2 if text.startswith(b"[") else 1
    for token in _NAME.finditer(text):
        if token[1] is None:
            depth += 1 if token[0] in b"{[" else -1
        elif token[2] and depth == depth_of_members:
            names.add(normalised(windows_1252(token[1])))
    # An invalid line can leave brackets open, so each line is also read on its own.
    return frozenset(names) | line_member_names(head)
