"""Guesses which column of a CSV file is which member, by names and by values."""

import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import NamedTuple

from app.registers.formats.columns import DELETED, FileFault, Presence, is_like_deleted
from app.registers.formats.csv_format import DelimitedRecords, likely_separator
from app.registers.formats.dates import iso_day
from app.registers.formats.encodings import is_utf_16, require_encoding
from app.registers.formats.mapped import folded_name
from app.registers.formats.native import LAYOUTS, SHAPES
from app.registers.formats.report import IgnoringReport
from app.registers.formats.streams import BYTE_ORDER_MARK
from app.registers.formats.suggesting import names
from app.registers.formats.values import quoted
from app.storage.tables import Kind, Shape

SAMPLE_BYTES = 1024 * 1024
_RECORDS_MAX = 1_000
_SEPARATORS = ",;\t|"


class Sample(NamedTuple):
    """The header of a CSV file and its first records, of at most `SAMPLE_BYTES`."""

    separator: str
    encoding: str | None
    """That of the file, if it was named."""
    is_utf8: bool
    """Whether no record was read as Windows-1252."""
    header: list[str]
    records: list[list[str]]

    def values(self, column: int) -> list[str]:
        """Return the values of a column, without empty fields."""
        return names.present([record[column] for record in self.records])

    @property
    def has_header(self) -> bool:
        """Whether the first line holds names.

        SEC: otherwise it is a record, and its fields must not be shown as names.
        """
        named = [name for name in self.header if name.strip()]
        if 2 * len(named) < len(self.header):  # A title.
            return False
        if any(map(names.is_value, self.header)):
            return False
        plates = [number for number, name in enumerate(self.header) if names.is_plate(name)]
        # A name such as MOT2 can be a plate; but not above plates, or if nothing is below it.
        return not any(
            names.plates(self.values(number)) > 1 - names.MOST or not self.values(number)
            for number in plates
        )


def read_sample(data: bytes, encoding: str | None = None) -> Sample:
    """Return the sample of the first `SAMPLE_BYTES` of a file.

    Args:
        encoding: the encoding of the file, if it is known.

    Raises FileFault if they are no CSV with a header, or not in this encoding.
    """
    if is_utf_16(data):
        raise FileFault("The file seems to be UTF-16; save it as UTF-8.")
    if b"\0" in data:
        raise FileFault("The file is no text: it has zero bytes.")
    require_encoding(data, encoding)
    text = data.removeprefix(BYTE_ORDER_MARK).lstrip()
    if not text:
        raise FileFault("The file is empty.")
    if text.startswith((b"{", b"[")):
        raise FileFault("The file is JSON; mapping files are for CSV only.")
    if text.startswith(b"<"):
        raise FileFault("The file is XML or HTML; mapping files are for CSV only.")
    first_line = text.split(b"\n", 1)[0].decode("latin-1")
    separator = likely_separator(first_line, _SEPARATORS)
    if len(data) >= SAMPLE_BYTES:
        data = data[: data.rfind(b"\n") + 1] or data
    records = DelimitedRecords(io.BytesIO(data), IgnoringReport(), separator, encoding)
    rows: list[list[str]] = []
    # The load reports a last record that is cut off, and a quote that is open.
    with suppress(FileFault):
        for record in islice(records, _RECORDS_MAX):
            rows.append(list(record))  # type: ignore[arg-type] # read_block is not set
    is_utf8 = records.decoder.is_utf8
    return Sample(records.separator, encoding, is_utf8, records.header, rows)


_SHARED = frozenset({"registration", "lastUpdated"})
"""Members of several kinds: they do not tell which one it is."""
_AMBIGUOUS = frozenset({"amount", "motExpiry"})
"""Members that look like others: the amount of the fine, the day of the last inspection."""
_PERIOD_COLUMNS_MAX = 20
"""A period is looked for in so many columns of dates: each is compared with all others."""


class Guess(NamedTuple):
    """The column of a member."""

    column: int
    remark: str = ""
    """The doubt about the guess; empty if there is none."""


@dataclass(slots=True)
class Suggestion:
    """What is known of a file; columns are their positions in the header."""

    sample: Sample
    kind: Kind
    is_kind_sure: bool
    guesses: dict[str, Guess]
    missing: list[str]
    """Members that every row needs and that no column was found for."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why the other columns are not used."""

    @property
    def unused(self) -> list[int]:
        """The columns that no member is read from."""
        used = {guess.column for guess in self.guesses.values()}
        return [number for number in range(len(self.sample.header)) if number not in used]


def suggest(sample: Sample, kind: Kind | None = None) -> Suggestion:
    """Return the most likely mapping.

    Args:
        kind: the kind of the rows, if the operator names it.
    """
    found = {each: _Guesser(sample, each) for each in ([kind] if kind else Kind)}
    points = {each: guesser.points() for each, guesser in found.items()}
    best = max(found, key=lambda each: points[each])
    others = [points[each] for each in found if each != best]
    is_sure = kind is not None or points[best] > max(others, default=0)
    return found[best].suggestion(is_sure)


def missing_members(kind: Kind, found: Collection[str]) -> list[str]:
    """Return the members that every row of a kind needs, without those in `found`."""
    needed = _required_members(kind)
    if kind == Kind.FINES and "settledOn" not in found:
        needed.append("amount")
    return [member for member in needed if member not in found]


def _required_members(kind: Kind) -> list[str]:
    columns = LAYOUTS[kind]().columns
    return [column.label for column in columns if column.presence == Presence.REQUIRED]


class _Guesser:
    """Assigns the columns of a sample to the members of one kind."""

    def __init__(self, sample: Sample, kind: Kind) -> None:
        self._sample = sample
        self._kind = kind
        counts = Counter(map(folded_name, sample.header))
        self._usable = [
            number
            for number, name in enumerate(sample.header)
            if name.strip() and counts[folded_name(name)] == 1
        ]
        self._values = [sample.values(number) for number in range(len(sample.header))]
        self._refused: dict[int, str] = {}
        self._guesses: dict[str, Guess] = {}
        self._by_name()

    def points(self) -> float:
        """Return how well the names fit this kind."""
        own = [member for member in self._guesses if member not in _SHARED]
        needed = set(_required_members(self._kind)) - _SHARED
        return len(own) + len(needed.intersection(own))

    def suggestion(self, is_kind_sure: bool) -> Suggestion:
        """Return the guesses, completed by the values of the other columns."""
        self._by_values()
        missing = missing_members(self._kind, self._guesses)
        order = [column.label for column in LAYOUTS[self._kind]().columns]
        guesses = {each: self._guesses[each] for each in order if each in self._guesses}
        found = Suggestion(self._sample, self._kind, is_kind_sure, guesses, missing)
        found.reasons.update((number, self._reason(number)) for number in found.unused)
        return found

    def _by_name(self) -> None:
        candidates = [
            (-score, number, member)
            for number in self._usable
            for member, score in names.scores(self._sample.header[number], self._kind).items()
        ]
        used = set()
        for score, number, member in sorted(candidates):
            if number in used or member in self._guesses:
                continue
            is_exact = -score == names.EXACT
            shape = SHAPES.get(member, Shape.TEXT)
            fault = _misfit(shape, self._values[number])
            if fault:
                self._refused[number] = f"named like {member}, but {fault}"
                continue
            if not is_exact and shape == Shape.TEXT and names.dates(self._values[number]):
                # "Insurance checked on" is no insurer.
                self._refused[number] = f"named like {member}, but its values are dates"
                continue
            used.add(number)
            has_shape = shape != Shape.TEXT and self._values[number]
            is_confirmed = score == -names.WHOLE and has_shape and member not in _AMBIGUOUS
            remark = "" if is_exact or is_confirmed else "guessed from its name"
            self._guesses[member] = Guess(number, remark)

    def _by_values(self) -> None:
        if "registration" not in self._guesses:
            for number in self._free():
                if names.plates(self._values[number], mixed=True) >= names.MOST:
                    self._guesses["registration"] = _by_its_values(number)
                    break
        if self._kind == Kind.POLICIES:
            self._guess_period()
        if self._kind == Kind.VEHICLES and "year" not in self._guesses:
            years = [number for number in self._free() if names.are_years(self._values[number])]
            if len(years) == 1:
                self._guesses["year"] = _by_its_values(years[0])

    def _guess_period(self) -> None:
        """Guess the first and the last day: two columns of dates that are always in this order."""
        if not self._guesses.keys().isdisjoint({"validFrom", "validTo"}):
            return
        days = ((number, self._days(number)) for number in self._free())
        dated = islice(((number, found) for number, found in days if found), _PERIOD_COLUMNS_MAX)
        for (first, first_days), (last, last_days) in permutations(dated, 2):
            if _is_before(first_days, last_days):
                self._guesses["validFrom"] = _by_its_values(first)
                self._guesses["validTo"] = _by_its_values(last)
                return

    def _days(self, number: int) -> list[str | None]:
        """Return the days of a column, None for other values; an empty list if it has no days."""
        found = names.dates(self._values[number])
        form = found.form if found else None
        if form is None:
            return []
        return [iso_day(record[number].strip(), form) for record in self._sample.records]

    def _reason(self, number: int) -> str:
        """Return why a column is not used."""
        name = self._sample.header[number]
        if not name.strip():
            return "it has no name"
        if number not in self._usable:
            return "its name is in the header more than once"
        if is_like_deleted(name):
            return f"if it is true in the rows to remove, name it as {DELETED} in [columns]"
        reason = self._other_kind(number) or self._refused.get(number)
        for member in names.scores(name, self._kind):
            if not reason and member in self._guesses:
                read = self._sample.header[self._guesses[member].column]
                reason = f"named like {member}, which is read from {quoted(read)}"
        return reason or "no known name"

    def _other_kind(self, number: int) -> str:
        """Return which other kind has a column, by its name; empty if none has it for sure."""
        name = self._sample.header[number]
        if names.EXACT in names.scores(name, self._kind).values():
            return ""
        for kind in Kind:
            for member, score in names.scores(name, kind).items():
                if score == names.EXACT:
                    return f"could be {member} in a mapping of its own, with --kind {kind}"
        return ""

    def _free(self) -> Iterator[int]:
        used = {guess.column for guess in self._guesses.values()}
        return (
            number
            for number in self._usable
            if number not in used and not names.means_other(self._sample.header[number])
        )


def _by_its_values(number: int) -> Guess:
    return Guess(number, "guessed from its values")


def _is_before(first: Sequence[str | None], last: Sequence[str | None]) -> bool:
    pairs = [(a, b) for a, b in zip(first, last, strict=True) if a and b]
    return bool(pairs) and all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _misfit(shape: Shape, values: Sequence[str]) -> str | None:
    """Return why a member cannot have these values; None if it can, or if there are none."""
    if not values or shape == Shape.TEXT:
        return None
    fits, what = _CHECKS[shape]
    return None if fits(values) else f"most of its values are no {what}"


_CHECKS: Mapping[Shape, tuple[Callable[[Sequence[str]], bool], str]] = {
    # 2026-03-01 could be a registration.
    Shape.PLATE: (
        lambda values: names.plates(values) >= names.MOST and not names.dates(values),
        "registrations",
    ),
    Shape.DAY: (lambda values: names.dates(values) is not None, "dates"),
    Shape.TIME: (names.are_times, "times with a time zone"),
    Shape.YEAR: (names.are_years, "years"),
    Shape.FLAG: (names.are_flags, "words for yes or no"),
    Shape.MONEY: (lambda values: names.decimal(values) is not None, "amounts"),
}
