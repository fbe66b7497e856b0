"""Detects the format and the kind of the files of a load, unless the operator names them."""

import codecs
from typing import NamedTuple

from app.registers.formats import OF_STATES, FileFault, Format, advice, recognise
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.encodings import require_encoding
from app.registers.reading.sources import InputFile
from app.registers.request import LoadRequest
from app.storage.tables import Kind

_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Detected(NamedTuple):
    """The format and the kind of the files of a load."""

    format: Format
    kind: Kind


def detect(file: InputFile, request: LoadRequest) -> Detected:
    """Return the format and the kind of a file.

    The head of the file decides, unless the operator names them. Raises FileFault if the head fits
    no format, or not what the operator names. An empty file is refused too, unless the operator
    allows it with `--empty-ok` and names both.
    """
    if not file.head and not (request.empty_ok and request.format and request.kind):
        hint = "; to load it with --empty-ok, add --format and --kind" if request.empty_ok else ""
        raise FileFault(f"The file is empty{hint}.", file.name)
    if file.head.startswith(_UTF_16_MARKS) or b"\0" in file.head[:2]:
        # Read as a single-byte encoding, its columns would only seem to be missing.
        raise FileFault("The file is UTF-16; save it as UTF-8.", file.name)
    try:
        format_, detected_kind = _format_of(file.head, request)
        kind = _kind_of(file.head, request, format_, detected_kind)
        _require_options(format_, request)
        if isinstance(format_, CsvFormat):
            require_encoding(file.head, format_.encoding)
    except FileFault as fault:
        raise FileFault(fault.reason, file.name) from None
    return Detected(format_, kind)


def _require_options(format_: Format, request: LoadRequest) -> None:
    """Raise FileFault if an option is named that does not apply to the format."""
    refused = None
    if request.state is not None and format_.name not in OF_STATES:
        refused = f"--state is only for {' and '.join(OF_STATES)}"
    elif request.encoding is not None and not isinstance(format_, CsvFormat):
        refused = "--encoding is only for CSV"
    if refused:
        raise FileFault(f"The file is read as {format_.name}; {refused}.")


def _format_of(head: bytes, request: LoadRequest) -> tuple[Format, Kind | None]:
    """Return the format, and the kind if the head shows it, else None."""
    if request.format is None:
        return recognise(head, request.formats)
    format_ = request.formats[request.format]
    return format_, format_.recognise(head)


def _kind_of(head: bytes, request: LoadRequest, format_: Format, detected: Kind | None) -> Kind:
    kind = detected or request.kind
    if kind is None:
        looked_for = f"looked for {format_.looked_for}.{advice(head)}"
        raise FileFault(f"The file is not {format_.name}: {looked_for}")
    if request.kind is not None and kind != request.kind:
        # Rows that are read as another kind would erase stored values.
        raise FileFault(f"The file contains {kind}, not {request.kind}.")
    format_.require_kind(kind)
    return kind
