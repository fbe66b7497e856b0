"""The formats of register files: bytes in; rows, or a reasoned rejection, out."""

from app.registers.formats.interface import (
    HEAD_BYTES,
    FileFault,
    Format,
    Kind,
    Report,
    RowFault,
)
from app.registers.formats.native import NativeCsv, NativeNdjson
from app.registers.formats.rdw import RdwCsv

__all__ = [
    "FORMATS",
    "HEAD_BYTES",
    "FileFault",
    "Format",
    "Kind",
    "Report",
    "RowFault",
    "recognise",
]

# The first that recognises a file gets it: our own, whose names are the most common, come last.
_ALL: tuple[Format, ...] = (RdwCsv(), NativeNdjson(), NativeCsv())
FORMATS: dict[str, Format] = {each.name: each for each in _ALL}


def recognise(head: bytes) -> tuple[Format, Kind]:
    """Return the format and the kind of a file by its first bytes, decompressed.

    Raises FileFault that names what was looked for.
    """
    for each in FORMATS.values():
        kind = each.recognise(head)
        if kind is not None:
            return each, kind
    looked_for = "; ".join(f"{each.name}, {each.looked_for}" for each in FORMATS.values())
    raise FileFault(f"The file fits no format. Looked for: {looked_for}.{_hint(head)}")


def _hint(head: bytes) -> str:
    is_utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    return " It begins like UTF-16; save it as UTF-8." if is_utf16 else ""
