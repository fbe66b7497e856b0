"""NYC, Open Parking and Camera Violations: the fines of New York City (formats 5)."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from app.registers.formats import delimited, json_rows
from app.registers.formats.bounded_cache import remembering
from app.registers.formats.changes import FineRow, Row
from app.registers.formats.columns import (
    SOCRATA_COLUMNS,
    Column,
    Declared,
    Layout,
    Presence,
    normalised,
)
from app.registers.formats.dates import american_date, iso_time_date
from app.registers.formats.format import Report, RowFault, RowSkip, require_kind
from app.registers.formats.json_stream import member_names
from app.registers.formats.values import (
    MISSING,
    cents,
    day,
    iso_date,
    key_text,
    registration,
    shown,
    stored_text,
)
from app.storage.tables import Kind

DEFAULT_STATE = "NY"
_KEYS = frozenset({"plate", "state", "summons_number"})
_NO_PLATES = "BLANKPLATE"
_CURRENCY = "USD"
_DOLLARS = re.compile(r"-?\$?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]{1,2})?")
_IGNORED = SOCRATA_COLUMNS | frozenset(
    "license_type violation_time violation judgment_entry_date precinct county issuing_agency "
    "violation_status summons_image summons_image_description".split()
)
_OTHER_AMOUNTS = (
    "Fine Amount",
    "Penalty Amount",
    "Interest Amount",
    "Reduction Amount",
    "Payment Amount",
)


class NycCsv:
    """The CSV download.

    Args:
        state: whose plates are read, such as `NY`; a plate is unique only within its state,
            so the rows of all others are skipped.
    """

    name = "nyc-csv"
    register = "nyc"
    header_lines = 1
    looked_for = "a CSV header with the columns Plate, State and Summons Number"

    def __init__(self, state: str = DEFAULT_STATE) -> None:
        self._state = state

    def recognise(self, head: bytes) -> Kind | None:
        """Return fines if plate, state and number of the summons are there."""
        return Kind.FINES if delimited.header_names(head) >= _KEYS else None

    def is_snapshot(self, head: bytes) -> bool:
        """A file is the whole register: paid fines stay in it."""
        return True

    def declared(self, kind: Kind) -> Declared:
        """Return what a header names: all we read is required or expected."""
        return Declared(fine_layout(self._state).columns, _IGNORED, has_header=True)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read the fines of one state."""
        require_kind(self.name, kind, Kind.FINES)
        return delimited.rows(stream, fine_layout(self._state), report)


class NycJson:
    """The SODA JSON; its members are named as the columns, those without a value left out.

    Args:
        state: as of NycCsv.
    """

    name = "nyc-json"
    register = "nyc"
    looked_for = "JSON objects with the members plate, state and summons_number"

    def __init__(self, state: str = DEFAULT_STATE) -> None:
        self._state = state

    def recognise(self, head: bytes) -> Kind | None:
        """Return fines if plate, state and number of the summons are there."""
        return Kind.FINES if member_names(head) >= _KEYS else None

    def is_snapshot(self, head: bytes) -> bool:
        """The files of a load, which may be pages, are the whole register."""
        return True

    def declared(self, kind: Kind) -> Declared:
        """Return the members as the CSV's columns."""
        return Declared(fine_layout(self._state).columns, _IGNORED)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read the fines of one state, as from the CSV."""
        require_kind(self.name, kind, Kind.FINES)
        return json_rows.rows(stream, fine_layout(self._state), report)


def fine_layout(state: str) -> Layout:
    """Return the columns we use; rows of another state than this one are skipped."""

    def finish(values: Iterable[Any]) -> FineRow:
        texts = iter(values)
        plate, of_state = next(texts), next(texts)
        # A row of another state is read no further: it is skipped, whatever else is in it.
        if of_state.strip().upper() != state:
            raise RowSkip(f"state {shown(of_state)}")
        reference, issued_on, due, *others = texts
        if due is None:
            # All six amounts blank: written off, nothing is owed any more.
            if any(amount.strip().lower() not in MISSING for amount in others):
                raise RowFault("no Amount Due")
            due = 0
        return FineRow(_plate(plate), reference, issued_on, due, _CURRENCY, due <= 0)

    columns = (
        _column("Plate", str, Presence.REQUIRED),
        _column("State", str, Presence.REQUIRED),
        _column("Summons Number", _reference(), Presence.REQUIRED, is_whole=True),
        _column("Issue Date", day("Issue Date", _date), Presence.SPARSE),
        _column("Amount Due", remembering(_dollars()), Presence.REQUIRED),
        *(_column(label, str, Presence.OPTIONAL) for label in _OTHER_AMOUNTS),
    )
    return Layout(columns, finish)


def _column(
    label: str, read: Callable[[str], Any], presence: Presence, *, is_whole: bool = False
) -> Column:
    return Column(label, frozenset([normalised(label)]), read, presence, is_whole=is_whole)


def _plate(text: str) -> str:
    plate = registration(text)
    if plate == _NO_PLATES:
        raise RowFault("a car without plates")
    return plate


def _reference() -> Callable[[str], str]:
    """Make a reader of summons numbers; `1.4E+09` was through a spreadsheet and has lost digits."""
    number = key_text("Summons Number")

    def read(text: str) -> str:
        value = number(text)
        if not (value.isascii() and value.isdigit()):
            raise RowFault(f"Summons Number: not digits only: {shown(value)}")
        return value

    return read


def _dollars() -> Callable[[str], int | None]:
    """Make a reader of amounts in hundredths, such as `130.97`, `50` and `$2,115.50`."""
    plain = cents("Amount Due")

    def read(text: str) -> int | None:
        value = stored_text("Amount Due", text) or ""
        return plain(
            value.replace("$", "").replace(",", "") if _DOLLARS.fullmatch(value) else value
        )

    return read


def _date(text: str) -> str | None:
    return american_date(text) or iso_date(text) or iso_time_date(text)
