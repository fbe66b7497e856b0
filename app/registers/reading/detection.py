"""Detects what the files of a load are, unless the operator says so."""

from typing import NamedTuple

from app.registers.formats import FileFault, Format, advice, recognise
from app.registers.reading.sources import Member
from app.registers.request import LoadRequest
from app.storage.tables import Kind


class Detected(NamedTuple):
    """What the files of a load are."""

    format: Format
    kind: Kind


def detect(member: Member, request: LoadRequest) -> Detected:
    """Return the format and the kind of a file.

    The operator may name either; otherwise the first bytes of the file decide. Raises FileFault if
    they fit no format or not the one named, and for an empty file, unless the operator names both
    and allows it to be empty.
    """
    if not member.head and not (request.empty_ok and request.format and request.kind):
        hint = "; --empty-ok needs --format and --kind for such a file" if request.empty_ok else ""
        raise FileFault(f"The file is empty{hint}.", member.name)
    try:
        format_, seen = _format_of(member.head, request)
        kind = _kind_of(member.head, request, format_, seen)
    except FileFault as fault:
        raise FileFault(fault.reason, member.name) from None
    return Detected(format_, kind)


def _format_of(head: bytes, request: LoadRequest) -> tuple[Format, Kind | None]:
    """Return the format, and the kind if the head shows it."""
    if request.format is None:
        return recognise(head, request.formats)
    format_ = request.formats[request.format]
    return format_, format_.recognise(head)


def _kind_of(head: bytes, request: LoadRequest, format_: Format, seen: Kind | None) -> Kind:
    kind = seen or request.kind
    if kind is None:
        looked_for = f"looked for {format_.looked_for}.{advice(head)}"
        raise FileFault(f"The file is not {format_.name}: {looked_for}")
    if request.kind is not None and kind != request.kind:
        # Read as another kind, its rows would blank what the register holds.
        raise FileFault(f"The file holds {kind}, not {request.kind}.")
    format_.require_kind(kind)
    return kind
