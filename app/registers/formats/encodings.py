"""The encodings of CSV files, which a mapping or an option can name; by default UTF-8."""

import codecs
import re
from contextlib import suppress

from app.registers.formats.columns import FileFault
from app.registers.formats.lines import windows_1252
from app.registers.formats.values import quoted

_UTF_8 = frozenset({"utf-8", "utf-8-sig"})
_EXAMPLES = "such as windows-1250, iso-8859-2 or cp437"
_UNKNOWN = f"no encoding of text that is known here; use one {_EXAMPLES}"
_UTF_16 = re.compile(rb"\A(?:\xff\xfe|\xfe\xff)|(?:[^\0]\0){3}")
_EVERY_BYTE = bytes(range(256))
_ESCAPE = rb"\u0041"
_REPLACEMENT = "\ufffd"


def is_utf_16(head: bytes) -> bool:
    """Tell whether a file is UTF-16, by its mark or by single NULs between other bytes."""
    return _UTF_16.search(head) is not None


def encoding_fault(name: str) -> str | None:
    """Return why CSV files cannot be read in an encoding, as the end of a sentence.

    Return None for UTF-8, and for one-byte encodings in which ASCII is ASCII. In all others,
    separators, quotes and line ends can be parts of characters; large files are cut at them.
    """
    if not name.isascii():  # Python 3.15 warns of such names.
        return _UNKNOWN
    try:
        if codecs.lookup(name).name in _UTF_8:
            return None
        has_escapes = len(_ESCAPE.decode(name, "replace")) < len(_ESCAPE)
        decoded = "" if has_escapes else _EVERY_BYTE.decode(name, "replace")
    except (LookupError, ValueError):
        # LookupError also means a codec that is no text encoding, such as rot13.
        return _UNKNOWN
    others = decoded[128:]
    if len(decoded) != len(_EVERY_BYTE) or decoded[:128].encode() != _EVERY_BYTE[:128]:
        return "neither UTF-8 nor a one-byte encoding that begins with ASCII; save files as UTF-8"
    if others.count(_REPLACEMENT) == len(others):
        return f"it has no letters but those of ASCII; use one {_EXAMPLES}"
    return None


def named_encoding(name: str) -> str:
    """Return the name of an encoding that CSV files can have. Raises ValueError."""
    fault = encoding_fault(name)
    if fault:
        raise ValueError(f"{quoted(name)}: {fault}")
    return name


def require_encoding(head: bytes, encoding: str | None) -> None:
    """Raise FileFault if a file is UTF-8 with other letters than ASCII, but to be read otherwise.

    Args:
        head: its first bytes, or whole lines of it.
    """
    if encoding is None or codecs.lookup(encoding).name in _UTF_8 or head.isascii():
        return
    # A source that changes to UTF-8 must not load as garbage.
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(head)
        raise FileFault(f"The file is UTF-8, not {encoding}; leave the encoding out.")


class Decoder:
    """Decodes the blocks and records of one file.

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
