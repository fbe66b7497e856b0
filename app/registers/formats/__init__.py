"""The formats of register files: bytes in; rows, or a reasoned rejection, out."""

from collections.abc import Mapping

from app.registers.formats.dvla import Dvla
from app.registers.formats.dvsa import Dvsa
from app.registers.formats.format import (
    HEAD_BYTES,
    FileFault,
    Format,
    Kind,
    Report,
    RowFault,
)
from app.registers.formats.json_stream import is_array, is_empty_array
from app.registers.formats.mid import Mid
from app.registers.formats.native import NativeCsv, NativeJson, NativeNdjson
from app.registers.formats.nyc import DEFAULT_STATE, NycCsv, NycJson
from app.registers.formats.rdw import RdwCsv, RdwJson

__all__ = [
    "DEFAULT_STATE",
    "FORMATS",
    "HEAD_BYTES",
    "FileFault",
    "Format",
    "Kind",
    "Report",
    "RowFault",
    "advice",
    "formats_of",
    "has_line_ends",
    "is_empty_array",
    "recognise",
]


def formats_of(state: str = DEFAULT_STATE) -> dict[str, Format]:
    """Return all formats by name; those of NYC read the plates of one state."""
    # The first that recognises a file gets it: our own, whose names are the most common, come last.
    formats: tuple[Format, ...] = (
        RdwCsv(),
        RdwJson(),
        Dvsa(),
        Dvla(),
        Mid(),
        NycCsv(state),
        NycJson(state),
        NativeNdjson(),
        NativeJson(),
        NativeCsv(),
    )
    return {each.name: each for each in formats}


FORMATS = formats_of()


def recognise(head: bytes, formats: Mapping[str, Format] = FORMATS) -> tuple[Format, Kind]:
    """Return the format and the kind of a file by its first bytes, decompressed.

    Raises FileFault that names what was looked for.
    """
    for each in formats.values():
        kind = each.recognise(head)
        if kind is not None:
            return each, kind
    looked_for = "; ".join(f"{each.name}, {each.looked_for}" for each in formats.values())
    raise FileFault(f"The file fits no format. Looked for: {looked_for}.{advice(head)}")


def has_line_ends(format_: Format, head: bytes) -> bool:
    """Tell whether only a line end says that a file is whole: not of arrays and the MID (D68)."""
    return not getattr(format_, "has_trailer", False) and not is_array(head)


def advice(head: bytes) -> str:
    """Return a sentence on what to do about a file that does not fit, or nothing."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return " It begins like UTF-16; save it as UTF-8."
    return " It holds no record: name its --format and --kind." if is_empty_array(head) else ""
