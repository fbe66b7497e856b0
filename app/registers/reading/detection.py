"""What the files of a load are: as the operator says, else as they look."""

import os
from collections.abc import Generator
from typing import NamedTuple

from app.registers.formats import FileFault, Format, Kind, advice, recognise
from app.registers.reading.sources import Member, in_order_of_dates, members
from app.registers.reading.streams import Heard
from app.registers.request import LoadRequest


class Layout(NamedTuple):
    """What the files of a load are."""

    format: Format
    kind: Kind


def opened_files(request: LoadRequest, heard: Heard) -> Generator[Member]:
    """Yield what all files hold, those of the DVSA in the order of their dates."""
    for file in in_order_of_dates(request.files, str):
        yield from members(os.fspath(file), heard, is_trusted=request.are_trusted)


def layout_of(member: Member, request: LoadRequest) -> Layout:
    """Return what a file is: as the operator says, else as it looks. Raises FileFault.

    An empty file is none of any format, unless the operator says which it is, and may be empty.
    """
    if not member.head and not (request.empty_ok and request.format and request.kind):
        hint = "; --empty-ok needs --format and --kind for such a file" if request.empty_ok else ""
        raise FileFault(f"The file is empty{hint}.", member.name)
    seen: Kind | None
    if request.format is None:
        try:
            format_, seen = recognise(member.head, request.formats)
        except FileFault as fault:
            raise FileFault(fault.reason, member.name) from None
    else:
        format_ = request.formats[request.format]
        seen = format_.recognise(member.head)
    kind = seen or request.kind
    if kind is None:
        looked_for = f"looked for {format_.looked_for}.{advice(member.head)}"
        raise FileFault(f"The file is no {format_.name}: {looked_for}", member.name)
    if request.kind is not None and kind != request.kind:
        # Read as another kind, its rows would blank what the register holds.
        raise FileFault(f"The file holds {kind}, not {request.kind}.", member.name)
    return Layout(format_, kind)
