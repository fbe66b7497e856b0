"""NYC, Open Parking and Camera Violations: the fines of New York City (formats 5)."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from app.registers.formats.bounded_cache import cached
from app.registers.formats.changes import FineRow
from app.registers.formats.columns import SOCRATA_COLUMNS, Column, Layout, Presence, normalised
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.dates import american_date, day, iso_date, iso_time_date
from app.registers.formats.faults import RowFault, RowSkip
from app.registers.formats.json_format import JsonFormat
from app.registers.formats.values import (
    MISSING,
    cents,
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


class NycCsv(CsvFormat):
    """The CSV download. It is complete: paid fines stay in it.

    Args:
        state: rows of other states are skipped, since a plate is unique only within its state.
    """

    name = "nyc-csv"
    register = "nyc"
    looked_for = "a CSV header with the columns Plate, State and Summons Number"
    kinds = frozenset([Kind.FINES])
    ignored_columns = _IGNORED

    def __init__(self, state: str = DEFAULT_STATE) -> None:
        self._state = state

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return fines if there are a plate, a state and a summons number."""
        return Kind.FINES if names >= _KEYS else None

    def layout(self, kind: Kind) -> Layout:
        """Return the columns of fines."""
        return fine_layout(self._state)


class NycJson(JsonFormat):
    """The SODA JSON. Its members are named as the columns; those without a value are left out.

    Args:
        state: as for `NycCsv`.
    """

    name = "nyc-json"
    register = "nyc"
    looked_for = "JSON objects with the members plate, state and summons_number"
    kinds = frozenset([Kind.FINES])
    ignored_members = _IGNORED

    def __init__(self, state: str = DEFAULT_STATE) -> None:
        self._state = state

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return fines if there are a plate, a state and a summons number."""
        return Kind.FINES if names >= _KEYS else None

    def layout(self, kind: Kind) -> Layout:
        """Return the members of fines."""
        return fine_layout(self._state)


def fine_layout(state: str) -> Layout:
    """Return the columns that are read; rows of another state than this one are skipped."""

    def build(values: Iterable[Any]) -> FineRow:
        texts = iter(values)
        plate, of_state = next(texts), next(texts)
        # A row of another state is skipped, even if the rest of it is invalid.
        if of_state.strip().upper() != state:
            raise RowSkip(f"state {shown(of_state)}")
        reference, issued_on, due, *others = texts
        if due is None:
            # If all six amounts are blank, the fine is written off: nothing is owed.
            if any(amount.strip().lower() not in MISSING for amount in others):
                raise RowFault("no Amount Due")
            due = 0
        return FineRow(_plate(plate), reference, issued_on, due, _CURRENCY, due <= 0)

    columns = (
        _column("Plate", str, Presence.REQUIRED),
        _column("State", str, Presence.REQUIRED),
        _column("Summons Number", _reference(), Presence.REQUIRED, is_whole=True),
        _column("Issue Date", day("Issue Date", _date), Presence.SPARSE),
        _column("Amount Due", cached(_dollars()), Presence.REQUIRED),
        *(_column(label, str, Presence.OPTIONAL) for label in _OTHER_AMOUNTS),
    )
    return Layout(columns, build)


def _column(
    label: str, parse: Callable[[str], Any], presence: Presence, *, is_whole: bool = False
) -> Column:
    return Column(label, frozenset([normalised(label)]), parse, presence, is_whole=is_whole)


def _plate(text: str) -> str:
    plate = registration(text)
    if plate == _NO_PLATES:
        raise RowFault("a car without plates")
    return plate


def _reference() -> Callable[[str], str]:
    """Return a parser of summons numbers; `1.4E+09` has lost digits in a spreadsheet."""
    number = key_text("Summons Number")

    def parse(text: str) -> str:
        value = number(text)
        if not (value.isascii() and value.isdigit()):
            raise RowFault(f"Summons Number: not digits only: {shown(value)}")
        return value

    return parse


def _dollars() -> Callable[[str], int | None]:
    """Return a parser of amounts such as `130.97`, `50` and `$2,115.50`, in hundredths."""
    plain = cents("Amount Due")

    def parse(text: str) -> int | None:
        value = stored_text("Amount Due", text) or ""
        return plain(
            value.replace("$", "").replace(",", "") if _DOLLARS.fullmatch(value) else value
        )

    return parse


def _date(text: str) -> str | None:
    return american_date(text) or iso_date(text) or iso_time_date(text)
