"""The formats of register files. Each turns the bytes of a file into rows and rejects."""

from collections.abc import Mapping

from app.registers.formats.columns import FileFault
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.dvla import Dvla
from app.registers.formats.dvsa import Dvsa
from app.registers.formats.format import Format
from app.registers.formats.json_splitter import is_empty_array
from app.registers.formats.mid import Mid
from app.registers.formats.native import NativeCsv, NativeJson, NativeNdjson
from app.registers.formats.nyc import DEFAULT_STATE, NycCsv, NycJson
from app.registers.formats.rdw import RdwCsv, RdwJson
from app.registers.formats.suggesting.closest import csv_fault
from app.storage.tables import Kind

__all__ = [
    "DEFAULT_STATE",
    "FORMATS",
    "OF_STATES",
    "FileFault",
    "Format",
    "advice",
    "formats_of",
    "recognise",
]


OF_STATES = (NycCsv.name, NycJson.name)
"""The formats whose files have plates of several states, of which one is read."""


def formats_of(state: str = DEFAULT_STATE, encoding: str | None = None) -> dict[str, Format]:
    """Return all formats by name.

    Args:
        state: the state whose plates are read from the fines of New York City.
        encoding: that of CSV files. None: UTF-8, or Windows-1252 for each record that is not.
    """
    # The first format that recognises a file is used. The native formats come last, because other
    # sources have columns of the same names.
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
    for each in formats:
        if isinstance(each, CsvFormat):
            each.encoding = encoding
    return {each.name: each for each in formats}


FORMATS = formats_of()


def recognise(head: bytes, formats: Mapping[str, Format] = FORMATS) -> tuple[Format, Kind]:
    """Return the format and the kind of a file.

    Args:
        head: its first `format.HEAD_BYTES`, decompressed.

    Raises FileFault if none recognises the file: for CSV with its columns and the closest format,
    otherwise with a list of all formats.
    """
    for each in formats.values():
        kind = each.recognise(head)
        if kind is not None:
            return each, kind
    fault = csv_fault(head, formats)
    if fault:
        raise FileFault(f"The file fits no format. {fault}")
    looked_for = "; ".join(f"{each.name}, {each.looked_for}" for each in formats.values())
    raise FileFault(f"The file fits no format. Looked for: {looked_for}.{advice(head)}")


def advice(head: bytes) -> str:
    """Return a sentence on what to do with a file that fits no format, or an empty text."""
    return " It is an empty array; name its --format and --kind." if is_empty_array(head) else ""
