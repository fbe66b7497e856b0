"""NYC, Open Parking and Camera Violations: the fines of New York City."""

import re
from collections.abc import Callable

from app.registers.formats import dates, values
from app.registers.formats.columns import (
    SOCRATA_COLUMNS,
    SOCRATA_PAGES,
    Column,
    Layout,
    Presence,
    RowFault,
    RowSkip,
    Values,
)
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.format import NamedFormat
from app.registers.formats.json_format import JsonFormat
from app.storage.tables import FineRow, Kind

DEFAULT_STATE = "NY"
_KEYS = frozenset({"plate", "state", "summons_number"})
_NO_PLATES = "BLANKPLATE"
_CURRENCY = "USD"
_DOLLARS = re.compile(r"-?\$?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]{1,2})?")
_IGNORED = SOCRATA_COLUMNS | frozenset(
    "license_type violation_time violation judgment_entry_date precinct county issuing_agency "
    "violation_status summons_image summons_image_description".split()
)
_OTHER_AMOUNTS = [f"{of} Amount" for of in ("Fine", "Penalty", "Interest", "Reduction", "Payment")]


class _Nyc(NamedFormat):
    """What the CSV and the JSON of New York City share.

    Args:
        state: only rows of this state are loaded, because a plate is unique only within its state.
    """

    register = "nyc"
    kinds = frozenset([Kind.FINES])
    ignored_names = _IGNORED
    page_rows = SOCRATA_PAGES

    def __init__(self, state: str = DEFAULT_STATE) -> None:
        self._state = state

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        return Kind.FINES if names >= _KEYS else None

    def layout(self, kind: Kind) -> Layout:
        """Return the columns that are read. Rows of other states are skipped."""

        def build(read: Values) -> FineRow:
            texts = iter(read)
            plate, of_state = next(texts), next(texts)
            # A row of another state is skipped even if its other values are invalid.
            if of_state.strip().upper() != self._state:
                raise RowSkip
            reference, issued_on, due, *others = texts
            if due is None:
                # A fine with six blank amounts is written off, so nothing is owed.
                if any(amount.strip().lower() not in values.MISSING for amount in others):
                    raise RowFault("no Amount Due")
                due = 0
            return FineRow(_plate(plate), reference, issued_on, due, _CURRENCY, due <= 0)

        issued_on = values.parser("Issue Date", _date)
        # Rows of JSON can lack an amount. If all do, they were hardly all written off.
        due_presence = Presence.REQUIRED if self.header_lines else Presence.EXPECTED
        columns = (
            Column.named("Plate", str, Presence.REQUIRED),
            Column.named("State", str, Presence.REQUIRED),
            Column.named("Summons Number", _reference(), Presence.REQUIRED, is_whole=True),
            Column.named("Issue Date", issued_on, Presence.SPARSE, blanks=values.MISSING),
            Column.named("Amount Due", _dollars(), due_presence),
            *(Column.named(label, str) for label in _OTHER_AMOUNTS),
        )
        return Layout(columns, build)


class NycCsv(_Nyc, CsvFormat):
    """The CSV download. It is complete, because it keeps paid fines."""

    name = "nyc-csv"
    looked_for = "a CSV header with the columns Plate, State and Summons Number"


class NycJson(_Nyc, JsonFormat):
    """The SODA JSON. Its members have the API names; members without a value are left out."""

    name = "nyc-json"
    looked_for = "JSON objects with the members plate, state and summons_number"


def _plate(text: str) -> str:
    plate = values.registration(text)
    if plate == _NO_PLATES:
        raise RowFault("a car without plates")
    return plate


def _reference() -> Callable[[str], str]:
    """Return a parser of summons numbers.

    It rejects numbers such as `1.4E+09`, which have lost digits in a spreadsheet.
    """
    number = values.key_text("Summons Number")

    def parse(text: str) -> str:
        value = number(text)
        if not (value.isascii() and value.isdigit()):
            raise RowFault(f"Summons Number: not digits only: {values.quoted(value)}")
        return value

    return parse


def _dollars() -> Callable[[str], int | None]:
    """Return a parser of amounts such as `130.97`, `50` and `$2,115.50`, in hundredths."""
    plain = values.cents("Amount Due")

    def parse(text: str) -> int | None:
        return plain(text.replace("$", "").replace(",", "") if _DOLLARS.fullmatch(text) else text)

    return values.parser("Amount Due", parse)


def _date(text: str) -> str | None:
    return dates.american_date(text) or dates.iso_date(text) or dates.iso_time_date(text)
