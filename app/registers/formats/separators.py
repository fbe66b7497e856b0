"""What separates the fields of a CSV file: Excel's line `sep=;`, or a guess."""

import re

from app.registers.formats.line_blocks import BYTE_ORDER_MARK

SEPARATORS = ",;\t"
_DECLARATION = re.compile(r'("?)sep=(\\t|\t|[^\w\s"])\1\2*', re.IGNORECASE)


def declared_separator(line: str) -> str | None:
    """Return the separator that a line before the header declares, None for any other line.

    A spreadsheet may have added quotes, and empty fields after the declaration.
    """
    match = _DECLARATION.fullmatch(line.strip(" \r\n"))
    return match[2].replace("\\t", "\t") if match else None


def likely_separator(header: str, separators: str = SEPARATORS) -> str:
    """Return the most frequent separator of a header, outside of quotes."""
    unquoted = "".join(header.split('"')[::2])
    return max(separators, key=unquoted.count)


def header_of(data: bytes) -> bytes:
    """Return the first line of a file, and a second one if the first declares the separator.

    The result is empty if there is no such line, or if it is blank.
    """
    end = data.find(b"\n") + 1
    first = data[:end].removeprefix(BYTE_ORDER_MARK)
    begin = end if declared_separator(first.decode("latin-1")) else 0
    end = data.find(b"\n", begin) + 1
    return data[:end] if data[begin:end].removeprefix(BYTE_ORDER_MARK).strip() else b""
