"""Splits a stream into JSON values, in bounded memory."""

import re
from typing import BinaryIO

from app.registers.formats.faults import FileFault
from app.registers.formats.line_blocks import (
    BLOCK_BYTES,
    LINE_BYTES_MAX,
    SHOWN_BYTES,
    OverlongLine,
)

_BLANKS = b" \t\r\n"
_BLANK = re.compile(rb"[ \t\r\n]*+")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(")?|[{}\[\]]', re.DOTALL)
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+(")?', re.DOTALL)
_SCALAR = re.compile(rb'[^\s,:\[\]{}"]++')
_FIRST_NAME = re.compile(rb'\{[ \t\r\n]*+"[^"\\]{1,100}+"')


class JsonSplitter:
    """Values that stand one after the other, or in arrays; about one at a time is in memory.

    `find` goes to the next value. Then `measure` returns it; so does `guess`, faster, if the text
    that it returns turns out to be a value.
    """

    def __init__(self, start: bytes, stream: BinaryIO) -> None:
        """Take a stream whose beginning, `start`, has been read."""
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
        """The line on which the current value begins. PERF: lines are counted only when needed."""
        self._count_lines()
        return self._line

    def find(self) -> bool:
        """Go to the next value; return False at the end. Raises FileFault."""
        byte = self._next_byte()
        if self._in_array and byte == b",":
            byte = self._next_byte(pass_over=1)
            if byte == b"]":
                raise self.broken()
        elif self._in_array and byte != b"]" and byte:
            raise self.broken()
        if self._in_array and byte == b"]":
            self._in_array = False
            byte = self._next_byte(pass_over=1)
        # More arrays may follow: the pages of an API's answer, joined into one file.
        while not self._in_array and byte == b"[":
            byte = self._next_byte(pass_over=1)
            self._in_array = byte != b"]"
            if byte == b"]":
                byte = self._next_byte(pass_over=1)
        if self._in_array and not byte:
            raise FileFault("The JSON array is cut off.")
        return bool(byte)

    def guess(self) -> bytes:
        """Return the text up to the next object that begins like the last one, empty if none."""
        if not self._first_name:
            return b""
        end = self._text.find(self._first_name, self._start + 1)
        text = self._text[self._start : end].rstrip(_BLANKS) if end >= 0 else b""
        if self._in_array:
            text = text.removesuffix(b",").rstrip(_BLANKS)
        self._end = self._start + len(text)
        return text if len(text) <= LINE_BYTES_MAX else b""

    def measure(self) -> bytes | OverlongLine:
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
                raise FileFault("The JSON is cut off.")
        self._end = end
        if end - self._start > LINE_BYTES_MAX:
            overlong = self._overlong()
        if overlong is not None:
            return overlong
        name = _FIRST_NAME.match(self._text, self._start)
        self._first_name = name[0] if name else b""
        return self._text[self._start : end]

    def broken(self) -> FileFault:
        """Return the fault of a file that is not JSON at the current value."""
        return FileFault(f"The JSON is broken at line {self.line}.")

    def _scalar(self) -> bytes:
        """Return the current value, a number or a word."""
        while (match := _SCALAR.match(self._text, self._start)) is not None:
            self._end = match.end()
            length = self._end - self._start
            if self._end < len(self._text) or length > LINE_BYTES_MAX or not self._read_on():
                return match[0][:LINE_BYTES_MAX]
        raise self.broken()

    def _next_byte(self, pass_over: int = 0) -> bytes:
        """Go past the current value and blanks; return the byte there, empty at the end."""
        self._end += pass_over
        while True:
            blank = _BLANK.match(self._text, self._end)
            place = blank.end() if blank else self._end
            if place < len(self._text):
                self._go_to(place)
                return self._text[place : place + 1]
            # A CR at the very end may be half of a CRLF.
            self._go_to(place - self._text.endswith(b"\r", self._end))
            if not self._read_on():
                self._go_to(len(self._text))
                return b""

    def _go_to(self, place: int) -> None:
        self._start = self._end = place

    def _count_lines(self) -> None:
        since = self._line_counted_to
        self._line += self._text.count(b"\n", since, self._start)
        if returns := self._text.count(b"\r", since, self._start):
            self._line += returns - self._text.count(b"\r\n", since, self._start)
        self._line_counted_to = self._start

    def _read_on(self) -> bool:
        """Read more, and forget what is before the current value; return False at the end."""
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
    """Finds the end of an object, an array or a string, which may be given in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self.scanned = 0
        """The position to go on from if the end was not found."""

    def end(self, text: bytes, start: int) -> int:
        """Return the position after the value, -1 if it does not end within this text."""
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
