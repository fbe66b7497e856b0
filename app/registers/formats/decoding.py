"""Decodes CSV: UTF-8, with Windows-1252 for each record that is not UTF-8, or a named encoding."""

from app.registers.formats.encodings import require_encoding
from app.registers.formats.line_blocks import windows_1252


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
