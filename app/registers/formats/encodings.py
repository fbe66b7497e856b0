"""The encodings of CSV files: those that a mapping or an option can name, and what is no UTF-8."""

import codecs
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import filterfalse

from app.registers.formats.columns import Column, FileFault
from app.registers.formats.dates import shape
from app.registers.formats.format import Report, Unreadable
from app.registers.formats.streams import windows_1252

NOT_UTF8 = "not UTF-8"
"""Reported instead of a column: values of records that were read as Windows-1252 (formats 0.5)."""
_UTF_8 = frozenset({"utf-8", "utf-8-sig"})
_EXAMPLES = "such as windows-1250, iso-8859-2 or cp437"
_EVERY_BYTE = bytes(range(256))
_ESCAPE = rb"\u0041"
_REPLACEMENT = "\ufffd"


def encoding_fault(name: str) -> str | None:
    """Return why CSV files cannot be read in an encoding, as the end of a sentence.

    Return None for UTF-8, and for one-byte encodings in which ASCII is ASCII. In all others,
    separators, quotes and line ends can be parts of characters.
    """
    try:
        if codecs.lookup(name).name in _UTF_8:
            return None
        has_escapes = len(_ESCAPE.decode(name, "replace")) < len(_ESCAPE)
        decoded = "" if has_escapes else _EVERY_BYTE.decode(name, "replace")
    except (LookupError, ValueError):
        # LookupError also means a codec that is no text encoding, such as rot13.
        return f"no encoding of text that is known here; use one {_EXAMPLES}"
    others = decoded[128:]
    if len(decoded) != len(_EVERY_BYTE) or decoded[:128].encode() != _EVERY_BYTE[:128]:
        return "neither UTF-8 nor a one-byte encoding that begins with ASCII; save files as UTF-8"
    if others.count(_REPLACEMENT) == len(others):
        return f"it has no letters but those of ASCII; use one {_EXAMPLES}"
    return None


def require_encoding(head: bytes, encoding: str | None) -> None:
    """Raise FileFault if a file is UTF-8 with other letters than ASCII, but to be read otherwise.

    Args:
        head: its first bytes, or whole lines of it.
    """
    if encoding is None or codecs.lookup(encoding).name in _UTF_8 or head.isascii():
        return
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(head)
        raise FileFault(f"The file is UTF-8, not {encoding}; leave the encoding out.")


class ValuesNotUtf8:
    """Counts the values of one file that are not ASCII, in records that are not UTF-8.

    Args:
        columns: the columns of a layout.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._values = 0
        self._line = 0
        self._example = ""
        self._is_odd = False
        """Whether the example has a character that is no letter, such as the © of ©koda."""

    def add_record(self, texts: Sequence[str], line_of: Callable[[], int]) -> None:
        """Count the values of a record that has become a row.

        Args:
            texts: those of the columns, in their order.
            line_of: returns the line of the record.
        """
        # PERF: most values are ASCII; this skips them in 0.3 us.
        for untrimmed in filterfalse(str.isascii, texts):
            text = untrimmed.strip()
            if text.isascii():
                continue
            if not self._is_odd:
                at = _telling(text)
                self._is_odd = not text[at].isalpha()
                if self._is_odd or not self._values:
                    self._line = line_of()
                    label = self._columns[texts.index(untrimmed)].label
                    self._example = f"{label}: {_shape(text, at)}"
            self._values += 1

    def report_to(self, report: Report) -> None:
        """Report them if there are any."""
        if self._values:
            found = Unreadable(self._values, line=self._line, texts=(self._example,))
            report.unreadable(NOT_UTF8, found)


def _telling(text: str) -> int:
    """Return the place of the character that shows best whether the encoding is right."""
    places = [place for place, each in enumerate(text) if not each.isascii()]
    return next((place for place in places if not text[place].isalpha()), places[0])


def _shape(text: str, at: int) -> str:
    """Return how a text looks, with one of its characters. No value is shown (D70)."""
    shown = text[at] if text[at].isprintable() else "?"
    return f"{shape(text[max(at - 10, 0) : at])}{shown}{shape(text[at + 1 :])}"


# Decodes CSV: UTF-8, with Windows-1252 for each record that is not UTF-8, or a named encoding.


class Decoder:
    """Decodes the blocks and records of one file (formats 0.5).

    Args:
        encoding: one that `encoding_fault` allows. None: UTF-8 or Windows-1252.
    """

    def __init__(self, encoding: str | None) -> None:
        self._encoding = encoding
        self._is_checked = False
        """Whether letters other than ASCII were compared with the named encoding."""
        self.is_utf8 = True
        """Whether no block needs `fields`."""
        self.is_record_utf8 = True
        """Whether the last record was UTF-8, or the encoding was named."""

    def text(self, block: bytes) -> str:
        """Return the text of whole lines, which all end with LF.

        Raises FileFault if they are UTF-8, but another encoding is named.
        """
        if self._encoding is not None and not self._is_checked:
            # A file can begin with so much ASCII that its head shows nothing.
            require_encoding(block, self._encoding)
            self._is_checked = not block.isascii()
        encoding = self._encoding or "utf-8"
        try:
            text = block.decode(encoding)
        except UnicodeDecodeError:
            # Which records are not UTF-8 shows only record by record. Until then surrogates keep
            # the bytes. With a named encoding they stay, and reject the values that have them.
            self.is_utf8 = self._encoding is not None
            text = block.decode(encoding, errors="surrogateescape")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    def fields(self, fields: list[str]) -> list[str]:
        """Return the fields of a record, decoded as Windows-1252 if the record is not UTF-8."""
        try:
            "".join(fields).encode()
        except UnicodeEncodeError:
            if self._encoding is not None:  # Names and rejects, which are only shown.
                return [field.encode(errors="replace").decode() for field in fields]
            self.is_record_utf8 = False
            # PERF: most fields are ASCII, which Windows-1252 leaves as it is.
            return [
                each if each.isascii() else windows_1252(each.encode(errors="surrogateescape"))
                for each in fields
            ]
        self.is_record_utf8 = True
        return fields
