"""Our own register files: CSV with a header, NDJSON, or JSON (DESIGN, section 4)."""

import re
from collections.abc import Callable, Iterable, Iterator
from operator import lt
from typing import Any, BinaryIO

from app.registers.formats import delimited, json_rows, values
from app.registers.formats.changes import FineRow, PolicyRow, Row, VehicleRow
from app.registers.formats.columns import Column, Declared, Layout, Presence, normalised
from app.registers.formats.format import Report, RowFault
from app.registers.formats.json_stream import is_ndjson, line_member_names, member_names
from app.storage.tables import Kind

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_TAX_STATUSES = {word: word for word in ("taxed", "exempt", "sorn", "untaxed")}
_CAPITALS = re.compile("(?=[A-Z])")


class NativeCsv:
    """CSV with a header."""

    name = "native-csv"
    register = "native"
    header_lines = 1
    looked_for = "a CSV header with the column registration"

    def recognise(self, head: bytes) -> Kind | None:
        """Judge by the names of the columns."""
        return _kind(delimited.header_names(head))

    def is_snapshot(self, head: bytes) -> bool:
        """Each kind of a register may be loaded whole."""
        return True

    def declared(self, kind: Kind) -> Declared:
        """Return what a header may name: a file may be narrow."""
        return Declared(LAYOUTS[kind]().columns, frozenset(), has_header=True, is_partial=True)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read rows by the header."""
        return delimited.rows(stream, LAYOUTS[kind](), report)


class NativeNdjson:
    """One JSON object a line, with members named as the columns of the CSV."""

    name = "native-ndjson"
    register = "native"
    header_lines = 0
    record_bytes_min = len('{"registration":"A"}')
    looked_for = "one JSON object a line with the member registration"

    def recognise(self, head: bytes) -> Kind | None:
        """Judge by the names of the members of all records in the head, if lines hold them."""
        return _kind(line_member_names(head)) if is_ndjson(head) else None

    def is_snapshot(self, head: bytes) -> bool:
        """Each kind of a register may be loaded whole."""
        return True

    def declared(self, kind: Kind) -> Declared:
        """Return the members that rows may have."""
        return Declared(LAYOUTS[kind]().columns, frozenset(), is_partial=True)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read a row a line."""
        return json_rows.rows(stream, LAYOUTS[kind](), report, only_lines=True)


class NativeJson:
    """JSON objects in an array, or one after the other, with the same members."""

    name = "native-json"
    register = "native"
    looked_for = "JSON objects with the member registration"

    def recognise(self, head: bytes) -> Kind | None:
        """Judge by the names of the members of all records in the head."""
        return _kind(member_names(head))

    def is_snapshot(self, head: bytes) -> bool:
        """Each kind of a register may be loaded whole."""
        return True

    def declared(self, kind: Kind) -> Declared:
        """Return the members that rows may have."""
        return Declared(LAYOUTS[kind]().columns, frozenset(), is_partial=True)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read a row an object."""
        return json_rows.rows(stream, LAYOUTS[kind](), report)


_REGISTRATION = Column(
    "registration",
    frozenset(["registration"]),
    values.registration,
    Presence.REQUIRED,
    values.registrations,
)


def vehicle_layout() -> Layout:
    """Return the columns of vehicles, in the order of VehicleRow."""
    columns = (
        _REGISTRATION,
        _column("make", values.text),
        _column("model", values.text),
        _column("year", values.year),
        _column("color", values.text),
        _column("insured", _boolean),
        _column("motExpiry", values.day),
        _column("motExempt", _boolean),
        _column("firstRegistered", values.day),
        _column("taxStatus", lambda label: values.known_word(label, _TAX_STATUSES)),
        _column("taxDue", values.day),
        _column("lastUpdated", values.moment, values.moments),
    )
    return Layout(columns, VehicleRow._make, finish_all=_in_rows)


def policy_layout() -> Layout:
    """Return the columns of policies, in the order of PolicyRow."""
    columns = (
        _REGISTRATION,
        _column("insurer", values.text),
        _column("number", values.key_text, values.key_texts, required=True),
        _column("validFrom", lambda label: values.sure_day(label, required=True), required=True),
        _column("validTo", lambda label: values.sure_day(label, required=True), required=True),
        _column("type", values.text),
        _column("cancelledOn", lambda label: values.sure_day(label, required=False)),
        _column("lastUpdated", values.moment, values.moments),
    )
    return Layout(columns, _policy, finish_all=_policies)


def fine_layout() -> Layout:
    """Return the columns of fines; what is owed and settled is judged by several."""
    columns = (
        _REGISTRATION,
        _column("reference", values.key_text, values.key_texts, required=True),
        _column("issuedOn", values.day),
        _column("amount", values.cents),
        _column("currency", values.currency),
        _column("settledOn", values.day),
    )
    return Layout(columns, _fine, finish_all=_fines)


LAYOUTS: dict[Kind, Callable[[], Layout]] = {
    Kind.VEHICLES: vehicle_layout,
    Kind.POLICIES: policy_layout,
    Kind.FINES: fine_layout,
}


_OWN_NAMES = {
    Kind.VEHICLES: (
        *("make", "model", "year", "color", "insured", "motExpiry", "motExempt"),
        *("firstRegistered", "taxStatus", "taxDue"),
    ),
    Kind.POLICIES: ("number", "insurer", "validFrom", "validTo", "cancelledOn"),
    Kind.FINES: ("amount", "settledOn"),
}
"""Columns that only files of this kind have, besides `reference`."""


def _kind(names: frozenset[str]) -> Kind | None:
    """Return what a file holds by its names, normalised; None if it has no registrations.

    A file that lacks a key but is clearly no list of vehicles is of its own kind all the same,
    so that it is refused: read as vehicles, it would be plates of which nothing is known.
    """
    if "registration" not in names:
        return None
    if "reference" in names:
        return Kind.FINES
    own = {kind: _spelt(names, labels) for kind, labels in _OWN_NAMES.items()}
    is_policy = "number" in names and not names.isdisjoint(_spellings("validFrom"))
    if is_policy or (own[Kind.POLICIES] > 1 and not own[Kind.VEHICLES]):
        return Kind.POLICIES
    return Kind.FINES if own[Kind.FINES] and not own[Kind.VEHICLES] else Kind.VEHICLES


def _spelt(names: frozenset[str], labels: Iterable[str]) -> int:
    """Return how many of some columns are among the names."""
    return sum(not names.isdisjoint(_spellings(label)) for label in labels)


def _column(
    label: str,
    reader_for: Callable[[str], Callable[[str], Any]],
    reader_of_many_for: Callable[[str], Callable[[list[str]], list[Any]]] | None = None,
    *,
    required: bool = False,
) -> Column:
    read_all = reader_of_many_for(label) if reader_of_many_for else None
    presence = Presence.REQUIRED if required else Presence.OPTIONAL
    return Column(label, _spellings(label), reader_for(label), presence, read_all)


def _spellings(label: str) -> frozenset[str]:
    """Return a name as the wire has it and in snake_case, both normalised."""
    return frozenset([normalised(label), normalised(_CAPITALS.sub("_", label))])


def _boolean(label: str) -> Callable[[str], bool | None]:
    return values.boolean(label, _BOOLEANS)


def _policy(read: Iterable[Any]) -> PolicyRow:
    plate, insurer, number, valid_from, valid_to, kind, cancelled_on, updated = read
    if valid_to < valid_from:
        raise RowFault("validTo is before validFrom")
    return PolicyRow(
        plate, insurer or "", number, valid_from, valid_to, kind, cancelled_on, updated
    )


def _in_rows(columns: list[list[Any]]) -> list[Any]:
    return list(zip(*columns, strict=True))


def _policies(columns: list[list[Any]]) -> list[Any]:
    _, insurers, _, firsts, lasts, *_ = columns
    if any(map(lt, lasts, firsts)):
        raise RowFault("validTo is before validFrom")
    columns[1] = [insurer or "" for insurer in insurers]
    return _in_rows(columns)


def _fines(columns: list[list[Any]]) -> list[Any]:
    return list(map(_fine, zip(*columns, strict=True)))


def _fine(read: Iterable[Any]) -> FineRow:
    plate, reference, issued_on, cents, currency, settled_on = read
    if cents is None:
        if settled_on is None:
            raise RowFault("no amount")
        cents = 0
    settled = settled_on is not None or cents <= 0
    return FineRow(plate, reference, issued_on, cents, currency, settled)
