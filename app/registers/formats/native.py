"""The native formats of verifyd: CSV with a header, NDJSON and JSON."""

import re
from collections.abc import Callable, Iterable
from operator import lt
from typing import Any

from app.registers.formats import dates, values
from app.registers.formats.changes import FineRow, PolicyRow, VehicleRow
from app.registers.formats.columns import Column, Layout, Presence, RowFault, normalised
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.format import NamedFormat
from app.registers.formats.json_format import JsonFormat
from app.registers.formats.json_splitter import is_ndjson, line_member_names
from app.registers.formats.values import TAX_STATUSES
from app.storage.tables import Kind

_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "1", "1.0"), True),
    **dict.fromkeys(("false", "no", "0", "0.0"), False),
}
_TAX_STATUSES = {word: word for word in TAX_STATUSES}
_CAPITALS = re.compile("(?=[A-Z])")


class _Native(NamedFormat):
    """What the native formats share."""

    register = "native"
    kinds = frozenset(Kind)
    ignored_names = frozenset[str]()
    is_partial = True

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return the kind by the names that only one kind has; None without a registration.

        Policies or fines that lack a required column are still recognised as such, so that they are
        refused. Read as vehicles, they would be plates without any data.
        """
        if "registration" not in names:
            return None
        if "reference" in names:
            return Kind.FINES
        own = {kind: _count(names, labels) for kind, labels in _OWN_NAMES.items()}
        is_policy = "number" in names and not names.isdisjoint(_spellings("validFrom"))
        if is_policy or (own[Kind.POLICIES] > 1 and not own[Kind.VEHICLES]):
            return Kind.POLICIES
        return Kind.FINES if own[Kind.FINES] and not own[Kind.VEHICLES] else Kind.VEHICLES

    def layout(self, kind: Kind) -> Layout:
        """Return the columns of a kind."""
        return LAYOUTS[kind]()


class NativeCsv(_Native, CsvFormat):
    """CSV with a header."""

    name = "native-csv"
    looked_for = "a CSV header with the column registration"


class NativeJson(_Native, JsonFormat):
    """JSON objects in an array or one after the other. Their members are the columns of the CSV."""

    name = "native-json"
    looked_for = "JSON objects with the member registration"


class NativeNdjson(NativeJson):
    """One JSON object per line, with the same members."""

    name = "native-ndjson"
    looked_for = "one JSON object per line with the member registration"
    header_lines: int | None = 0
    only_lines = True
    shortest_record = '{"registration":"A"}'

    def names_in(self, head: bytes) -> frozenset[str]:
        """Return the normalised names of all members if each line is an object, else none."""
        return line_member_names(head) if is_ndjson(head) else frozenset()


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
        _column("year", dates.year, is_strict=False),
        _column("color", values.text),
        _column("insured", _boolean),
        _column("motExpiry", _day, is_strict=False),
        _column("motExempt", _boolean),
        _column("firstRegistered", _day, is_strict=False),
        _column("taxStatus", _tax_status, is_strict=False),
        _column("taxDue", _day, is_strict=False),
        _column("lastUpdated", dates.moment, dates.moments, is_strict=False),
    )
    return Layout(columns, VehicleRow._make, build_many=_as_rows)


def policy_layout() -> Layout:
    """Return the columns of policies, in the order of PolicyRow."""
    columns = (
        _REGISTRATION,
        _column("insurer", values.text),
        _column("number", values.key_text, values.key_texts, required=True),
        _column("validFrom", lambda label: dates.strict_day(label, required=True), required=True),
        _column("validTo", lambda label: dates.strict_day(label, required=True), required=True),
        _column("type", values.text),
        _column("cancelledOn", lambda label: dates.strict_day(label, required=False)),
        _column("lastUpdated", dates.moment, dates.moments, is_strict=False),
    )
    return Layout(columns, _policy, build_many=_policies)


def fine_layout() -> Layout:
    """Return the columns of fines, from which `_fine` builds the rows."""
    columns = (
        _REGISTRATION,
        _column("reference", values.key_text, values.key_texts, required=True),
        _column("issuedOn", _day, is_strict=False),
        _column("amount", values.cents),
        _column("currency", values.currency, is_strict=False),
        _column("settledOn", _day, is_strict=False),
    )
    return Layout(columns, _fine, build_many=_fines)


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
"""The columns that only one kind has, besides `reference`."""


def _count(names: frozenset[str], labels: Iterable[str]) -> int:
    """Return how many of these columns are among the names."""
    return sum(not names.isdisjoint(_spellings(label)) for label in labels)


def _column(
    label: str,
    parser_for: Callable[[str], Callable[[str], Any]],
    parser_of_many_for: Callable[[str], Callable[[list[str]], list[Any]]] | None = None,
    *,
    required: bool = False,
    is_strict: bool = True,
) -> Column:
    """Return a column.

    Args:
        is_strict: whether the parser rejects the row if it cannot read the text of this column.
    """
    parse_many = parser_of_many_for(label) if parser_of_many_for else None
    presence = Presence.REQUIRED if required else Presence.OPTIONAL
    blanks = frozenset[str]() if is_strict else values.MISSING
    parse = parser_for(label)
    return Column(
        label,
        _spellings(label),
        parse,
        presence,
        parse_many,
        blanks=blanks,
        member=label,
        date_form=dates.ISO if parser_for is _day else "",
    )


def _spellings(label: str) -> frozenset[str]:
    """Return the normalised camelCase and snake_case spellings of a name."""
    return frozenset([normalised(label), normalised(_CAPITALS.sub("_", label))])


def _tax_status(label: str) -> Callable[[str], str | None]:
    return values.known_word(label, _TAX_STATUSES)


def _day(label: str) -> Callable[[str], str | None]:
    return dates.day(label, dates.native_date)


def _boolean(label: str) -> Callable[[str], bool | None]:
    return values.boolean(label, _BOOLEANS)


def _policy(read: Iterable[Any]) -> PolicyRow:
    plate, insurer, number, valid_from, valid_to, kind, cancelled_on, updated = read
    if valid_to < valid_from:
        raise RowFault("validTo is before validFrom")
    return PolicyRow(
        plate, insurer or "", number, valid_from, valid_to, kind, cancelled_on, updated
    )


def _as_rows(columns: list[list[Any]]) -> list[Any]:
    return list(zip(*columns, strict=True))


def _policies(columns: list[list[Any]]) -> list[Any]:
    _, insurers, _, firsts, lasts, *_ = columns
    if any(map(lt, lasts, firsts)):
        raise RowFault("validTo is before validFrom")
    columns[1] = [insurer or "" for insurer in insurers]
    return _as_rows(columns)


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
