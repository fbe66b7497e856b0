"""The native formats of verifyd: CSV with a header, NDJSON and JSON."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import tzinfo
from operator import lt
from typing import Any

from app.registers.formats import date_forms, dates, values
from app.registers.formats.changes import order_of
from app.registers.formats.columns import (
    DELETED,
    Column,
    Layout,
    Parse,
    ParseMany,
    Presence,
    RowFault,
    ValueColumns,
    Values,
    normalised,
)
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.format import NamedFormat
from app.registers.formats.json_format import JsonFormat
from app.registers.formats.json_splitter import is_ndjson, line_member_names
from app.storage.tables import COLUMNS, FineRow, Kind, PolicyRow, Row, Shape, VehicleRow
from app.vehicles.compliance import TAX_STATUSES

_CAPITALS = re.compile("(?=[A-Z])")


SHAPES: Mapping[str, Shape] = {
    **{each.name: each.shape for members in COLUMNS.values() for each in members},
    DELETED: Shape.FLAG,
}
"""The shapes of members."""
_NOTHING: Mapping[Shape, frozenset[str]] = {
    **dict.fromkeys((Shape.DAY, Shape.TIME, Shape.YEAR), values.DAY_NOTHING),
    **dict.fromkeys((Shape.FLAG, Shape.MONEY, Shape.WORD), values.NOTHING),
    # PERF: texts have one such word only, and looking for it in all of them takes time.
    Shape.TEXT: frozenset(),
}
"""The words of other programs for missing values that are counted."""
_MISSING = {shape: values.MISSING | words for shape, words in _NOTHING.items()}
_STATUSES = {word: word for word in TAX_STATUSES}
_PARSERS: Mapping[Shape, Callable[[str], Parse]] = {
    Shape.DAY: lambda label: values.parser(label, dates.native_date, _MISSING[Shape.DAY]),
    Shape.TIME: dates.moment,
    Shape.YEAR: lambda label: values.parser(label, dates.year_of, _MISSING[Shape.YEAR]),
    Shape.FLAG: values.boolean,
    Shape.MONEY: values.cents,
    Shape.WORD: lambda label: values.known_word(label, _STATUSES, _MISSING[Shape.WORD]),
    Shape.TEXT: lambda label: values.text(label, values.MISSING | values.TEXT_NOTHING),
}
_KEY_TEXTS = ("number", "insurer", "reference")
"""Texts that tell rows apart."""
_LENIENT = (Shape.DAY, Shape.TIME, Shape.YEAR, Shape.WORD)
"""The shapes whose parsers do not reject the row if they cannot read a text."""


class Native(NamedFormat):
    """What the native formats share."""

    register = "native"
    kinds = frozenset(Kind)
    ignored_names = frozenset[str]()
    is_partial = True
    deleted: str | None = None
    """The column that marks the rows to remove. None: no column does."""
    timezone: tzinfo | None = None
    """The zone of times that name none. None: they cannot be read."""

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return the kind by the names that only one kind has; None without a registration.

        Policies or fines that lack a required column are still recognised as such, so that they are
        refused. Read as vehicles, they would be plates without any data.
        """
        if "registration" not in names:
            return None
        if "reference" in names:
            return Kind.FINES
        own = {
            kind: sum(not names.isdisjoint(_spellings(label)) for label in labels)
            for kind, labels in _OWN_NAMES.items()
        }
        is_policy = "number" in names and not names.isdisjoint(_spellings("validFrom"))
        if is_policy or (own[Kind.POLICIES] > 1 and not own[Kind.VEHICLES]):
            return Kind.POLICIES
        return Kind.FINES if own[Kind.FINES] and not own[Kind.VEHICLES] else Kind.VEHICLES

    def layout(self, kind: Kind) -> Layout:
        """Return the columns of a kind, and the one that marks the rows to remove."""
        if self.deleted is None:
            return with_zone(LAYOUTS[kind](), self.timezone)
        # Programs leave out members without a value, so that no JSON row has it if none is marked.
        presence = Presence.EXPECTED if self.header_lines else Presence.OPTIONAL
        return with_zone(layout_with_deletions(kind, self.deleted, presence), self.timezone)


class NativeCsv(Native, CsvFormat):
    """CSV with a header."""

    name = "native-csv"
    looked_for = "a CSV header with the column registration"


class NativeJson(Native, JsonFormat):
    """JSON objects in an array or one after the other. Their members are the columns of the CSV."""

    name = "native-json"
    looked_for = "JSON objects with the member registration"


class NativeNdjson(NativeJson):
    """One JSON object per line, with the same members."""

    name = "native-ndjson"
    looked_for = "one JSON object per line with the member registration"
    header_lines: int | None = 0
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
    is_altered=values.is_day,
)


def vehicle_layout() -> Layout:
    """Return the columns of vehicles, in the order of VehicleRow."""
    columns = (_REGISTRATION, *(_column(each.name) for each in COLUMNS[Kind.VEHICLES][1:]))
    return Layout(columns, VehicleRow._make, build_many=_as_rows)


def policy_layout() -> Layout:
    """Return the columns of policies, in the order of PolicyRow."""
    columns = (
        _REGISTRATION,
        _column("insurer", nothing=values.TEXT_NOTHING),
        _key_column("number"),
        *(
            _column(
                label,
                dates.strict_day(label, required=True),
                presence=Presence.REQUIRED,
                nothing=frozenset(),
            )
            for label in ("validFrom", "validTo")
        ),
        _column("type"),
        _column("cancelledOn", dates.strict_day("cancelledOn", required=False)),
        _column("lastUpdated"),
    )
    return Layout(columns, _policy, build_many=_policies)


def fine_layout() -> Layout:
    """Return the columns of fines, from which `_fine` builds the rows."""
    columns = (
        _REGISTRATION,
        _key_column("reference"),
        *map(_column, ("issuedOn", "amount")),
        _column(
            "currency", values.currency("currency"), nothing=values.DAY_NOTHING, is_strict=False
        ),
        _column("settledOn"),
    )
    return Layout(columns, _fine, build_many=_fines)


LAYOUTS: dict[Kind, Callable[[], Layout]] = {
    Kind.VEHICLES: vehicle_layout,
    Kind.POLICIES: policy_layout,
    Kind.FINES: fine_layout,
}


def layout_with_deletions(
    kind: Kind, name: str = DELETED, presence: Presence = Presence.OPTIONAL
) -> Layout:
    """Return the columns of a kind, and last one that marks the rows to remove.

    Such a row needs only its key, so that a file can lack all other columns.

    Args:
        name: how files name the column.
    """
    layout, keys = LAYOUTS[kind](), order_of(kind).key_columns
    key, others = layout.columns[:keys], layout.columns[keys:]
    deleted = Column(
        name,
        frozenset([normalised(name)]),
        values.boolean(DELETED),
        presence,
        member=DELETED,
    )
    optional = (replace(column, presence=Presence.OPTIONAL) for column in others)
    return replace(layout, columns=(*key, *optional, deleted), key_columns=keys)


def with_zone(layout: Layout, zone: tzinfo | None) -> Layout:
    """Return a layout that reads times without a zone as those of this one; None: not at all."""
    if zone is None:
        return layout
    columns = (
        replace(
            column,
            parse=dates.moment(column.label, zone),
            parse_many=dates.moments(column.label, zone),
        )
        if SHAPES.get(column.member) == Shape.TIME
        else column
        for column in layout.columns
    )
    return replace(layout, columns=tuple(columns))


_OWN_NAMES = {
    Kind.VEHICLES: tuple(each.name for each in COLUMNS[Kind.VEHICLES] if each.is_counted),
    Kind.POLICIES: ("number", "insurer", "validFrom", "validTo", "cancelledOn"),
    Kind.FINES: ("amount", "settledOn"),
}
"""The columns that only one kind has, besides `reference`."""


def _column(
    label: str,
    parse: Parse | None = None,
    parse_many: ParseMany | None = None,
    *,
    presence: Presence = Presence.OPTIONAL,
    nothing: frozenset[str] | None = None,
    is_strict: bool = True,
) -> Column:
    """Return a column.

    Args:
        parse: None: the parser of the shape of its values.
        nothing: the words for missing values that are counted. None: those of the shape.
        is_strict: whether `parse` rejects the row if it cannot read the text of this column.
    """
    shape = SHAPES[label]
    if nothing is None:
        nothing = _NOTHING[shape]
    if shape == Shape.TIME:
        parse_many = dates.moments(label)
    is_lenient = not is_strict or (parse is None and shape in _LENIENT)
    return Column(
        label,
        _spellings(label),
        parse or _PARSERS[shape](label),
        presence,
        parse_many,
        is_whole=label in _KEY_TEXTS,
        is_altered=values.has_exponent if label in _KEY_TEXTS else None,
        blanks=values.MISSING | nothing if is_lenient or nothing else nothing,
        nothing=nothing,
        member=label,
        date_form=date_forms.ISO if is_lenient and shape == Shape.DAY else "",
    )


def _key_column(label: str) -> Column:
    """Return a column of texts that every row must have and that rarely repeat."""
    parsers = values.key_text(label), values.key_texts(label)
    return _column(label, *parsers, presence=Presence.REQUIRED)


def _spellings(label: str) -> frozenset[str]:
    """Return the normalised camelCase and snake_case spellings of a name."""
    return frozenset([normalised(label), normalised(_CAPITALS.sub("_", label))])


def _policy(read: Values) -> PolicyRow:
    plate, insurer, number, valid_from, valid_to, kind, cancelled_on, updated = read
    if valid_to < valid_from:
        raise RowFault("validTo is before validFrom")
    return PolicyRow(
        plate, insurer or "", number, valid_from, valid_to, kind, cancelled_on, updated
    )


def _as_rows(columns: ValueColumns) -> list[Any]:
    return list(zip(*columns, strict=True))


def _policies(columns: ValueColumns) -> list[Any]:
    _, insurers, _, firsts, lasts, *_ = columns
    if any(map(lt, lasts, firsts)):
        raise RowFault("validTo is before validFrom")
    return _as_rows([columns[0], [insurer or "" for insurer in insurers], *columns[2:]])


def _fines(columns: ValueColumns) -> list[Row]:
    return list(map(_fine, zip(*columns, strict=True)))


def _fine(read: Values) -> FineRow:
    plate, reference, issued_on, cents, currency, settled_on = read
    if cents is None:
        if settled_on is None:
            raise RowFault("no amount")
        cents = 0
    settled = settled_on is not None or cents <= 0
    return FineRow(plate, reference, issued_on, cents, currency, settled)
