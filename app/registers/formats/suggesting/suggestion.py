"""Finds which column of a CSV file is which member, and what only a person can tell (D99)."""

import io
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

from app.registers.formats.columns import DELETED, FileFault, Presence, is_like_deleted
from app.registers.formats.csv_format import DelimitedRecords, likely_separator
from app.registers.formats.encodings import is_utf_16, require_encoding
from app.registers.formats.mapped import folded_name
from app.registers.formats.native import LAYOUTS, SHAPES
from app.registers.formats.report import IgnoringReport
from app.registers.formats.streams import BYTE_ORDER_MARK
from app.registers.formats.suggesting import looks
from app.registers.formats.suggesting.names import CERTAIN, OTHER, PART, VAGUE, WITHOUT, meanings
from app.storage.tables import Kind, Shape

SAMPLE_BYTES = 1024 * 1024
_RECORDS_MAX = 1_000
_BEGINS_MAX = 4
_SEPARATORS = ",;\t|"
_PLATE = "registration"


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
        """Return the values of a column, trimmed, without missing ones."""
        texts = (record[column].strip() for record in self.records)
        return [text for text in texts if text and text.lower() != "null"]

    @property
    def has_header(self) -> bool:
        """Whether the first line holds names.

        SEC: otherwise it is a record, and its fields must not be shown as names.
        """
        if 2 * sum(map(bool, map(str.strip, self.header))) < len(self.header):  # A title.
            return False
        is_known = any(
            rank > VAGUE
            and SHAPES.get(member) != Shape.FLAG
            and name.strip() not in self.values(at)
            for at, name in enumerate(self.header)
            for member, rank in meanings(name).items()
        )
        return not any(
            self._is_of_record(at, name, is_beside_known=is_known and bool(self.records))
            for at, name in enumerate(self.header)
        )

    def _is_of_record(self, at: int, name: str, *, is_beside_known: bool) -> bool:
        """Tell whether a name is rather a value, as those below it are.

        Args:
            is_beside_known: whether another name is one of our words, and no word that is a value
                like `insured`. Then `Address1` is a name, too, unless a value below it is written
                like it.
        """
        values = self.values(at)
        if not looks.is_value(name):
            if not looks.is_plate(name):
                return False
            # A name such as MOT2 can be a plate; but not above plates, or if nothing is below it.
            if values and sum(map(looks.is_plate, values)) <= len(values) / 5:
                return False
        return not is_beside_known or looks.form(name) in map(looks.form, values)


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
    if text.startswith((b"{", b"[", b"<")):
        what = "XML or HTML" if text.startswith(b"<") else "JSON"
        raise FileFault(f"The file is {what}; mapping files are for CSV only.")
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


class Column(NamedTuple):
    """A column that a mapping can name."""

    number: int
    """Its position in the header."""
    name: str
    values: list[str]
    means: Mapping[str, int]
    """What its name can mean, and how sure that is."""

    def misfit(self, member: str) -> str:
        """Return why a member cannot have its values; empty if it can."""
        return looks.misfit(self.values, SHAPES.get(member, Shape.TEXT))

    def looks_like(self, key: str) -> bool:
        """Tell whether its values alone make it a candidate for a key."""
        if not looks.are_most(self.values, looks.is_plate if key == _PLATE else bool):
            return False
        is_one_of_many = SHAPES.get(key) in (Shape.DAY, Shape.MONEY)
        return (is_one_of_many or looks.are_distinct(self.values)) and not self.misfit(key)


class Suggestion(NamedTuple):
    """What is settled, and what is asked."""

    sample: Sample
    kind: Kind
    is_kind_sure: bool
    settled: dict[str, Column]
    questions: dict[str, list[Column]]
    """The candidates of members, the most likely first."""
    unused: dict[int, str]
    """The other columns by their positions, and why they are not read."""

    @property
    def likely(self) -> dict[str, Column]:
        """Return the members with their columns, or with the most likely candidates."""
        return self.settled | {member: each[0] for member, each in self.questions.items() if each}

    def columns(self, *shapes: Shape) -> list[tuple[str, Column]]:
        """Return members of these shapes with their columns or candidates."""
        lines = {member: [column] for member, column in self.settled.items()} | self.questions
        return [(each, c) for each in lines for c in lines[each] if SHAPES.get(each) in shapes]


def suggest(sample: Sample, kind: Kind | None = None) -> Suggestion:
    """Return what the names of columns settle, and the questions that are left.

    A name that is certain for one member settles it, if no other column has one and the values do
    not contradict it. Values rank candidates, and never settle a member.

    Args:
        kind: the kind of the rows, if the operator names it.
    """
    counts = Counter(map(folded_name, sample.header))
    columns = {
        at: Column(at, name, sample.values(at), meanings(name))
        for at, name in enumerate(sample.header)
        if name.strip() and counts[folded_name(name)] == 1
    }
    begins = [each for each in columns.values() if "validFrom" in each.means][:_BEGINS_MAX]
    for end in list(columns.values()):
        if "validTo" in end.means and any(_is_day_after(sample, each, end) for each in begins):
            columns[end.number] = end._replace(means={**end.means, WITHOUT: PART})
    ranks = {each: _ranks(columns.values(), each) for each in Kind}
    points = {each: sum(ranks[each]) for each in Kind}
    best = kind or max(points, key=lambda each: points[each])
    is_alone = list(points.values()).count(points[best]) == 1
    is_sure = kind is not None or (is_alone and CERTAIN in ranks[best])
    free, settled, questions = dict(columns), {}, {}
    for member in _members(best):
        if found := _settled(member, columns.values()):
            settled[member] = free.pop(found.number)
    needed = missing_members(best, settled)
    for member in _members(best):
        candidates = _candidates(member, free.values(), is_needed=member in needed)
        if member not in settled and (candidates or member in needed):
            questions[member] = candidates
    shown = {each.number for each in chain(settled.values(), *questions.values())}
    unused = {
        at: _reason(name, columns.get(at), best)
        for at, name in enumerate(sample.header)
        if at not in shown
    }
    return Suggestion(sample, best, is_sure, settled, questions, unused)


def _is_day_after(sample: Sample, begin: Column, end: Column) -> bool:
    """Tell whether most ends have the day of the month of their beginnings.

    What begins on 15 March ends with 14 March, or another 14th, if its end is the last day with.
    """
    first, last = looks.dates(begin.values), looks.dates(end.values)
    if begin is end or not first or not last:
        return False
    days = [
        (looks.day(record[begin.number], first[0]), looks.day(record[end.number], last[0]))
        for record in sample.records
    ]
    known = [(first, last) for first, last in days if first and last]
    return looks.are_most(known, lambda pair: pair[0] < pair[1] and pair[0][-2:] == pair[1][-2:])


def missing_members(kind: Kind, found: Container[str]) -> list[str]:
    """Return the members that every row of a kind needs, without those in `found`."""
    needed = [member for member, is_needed in _members(kind).items() if is_needed]
    if kind == Kind.FINES and "settledOn" not in found:
        needed.append("amount")
    return [member for member in needed if member not in found]


@cache
def _members(kind: Kind) -> Mapping[str, bool]:
    """Return the members of a kind, and whether each row needs them."""
    return {each.label: each.presence == Presence.REQUIRED for each in LAYOUTS[kind]().columns}


def _ranks(columns: Iterable[Column], kind: Kind) -> list[int]:
    """Return how sure the best name is for each member that only this kind has; twice for keys."""
    return [
        max((each.means.get(member, 0) for each in columns), default=0)
        for member in [*_members(kind), *missing_members(kind, ())]
        if member not in (_PLATE, "lastUpdated")
    ]


def _settled(member: str, columns: Iterable[Column]) -> Column | None:
    certain = [each for each in columns if each.means.get(member) == CERTAIN]
    if len(certain) != 1 or certain[0].misfit(member) or WITHOUT in certain[0].means:
        return None
    if member == _PLATE:
        # A council's licence plates, and a fleet's own numbers, can look like registrations.
        rivals = (each for each in columns if each not in certain and member in each.means)
        is_alone = not any(each.looks_like(member) for each in rivals)
        return certain[0] if is_alone and looks.are_distinct(certain[0].values) else None
    return certain[0]


def _candidates(member: str, columns: Iterable[Column], *, is_needed: bool) -> list[Column]:
    """Return the columns that a member can be by their names, or by their values if it is a key.

    First come those whose values fit, then those with surer names; names of others come last.
    """
    ranked = []
    for each in columns:
        rank = each.means.get(member, 0)
        is_other = OTHER in each.means or CERTAIN in each.means.values()
        order = -rank if rank or each.means.keys() <= {WITHOUT} else 1
        if rank or (is_needed and not is_other and each.looks_like(member)):
            is_misfit = bool(each.misfit(member))
            ranked += [(is_misfit, order, each)] if rank > PART or not is_misfit else []
    return [each for *_, each in sorted(ranked, key=itemgetter(0, 1))]


def _reason(name: str, column: Column | None, kind: Kind) -> str:
    """Return why a column is not read."""
    if column is None:
        return "its name is in the header more than once" if name.strip() else "it has no name"
    if is_like_deleted(name):
        return f"if it is true in the rows to remove, name it as {DELETED} in [columns]"
    for other in Kind:
        for member in _members(other):
            if member not in _members(kind) and column.means.get(member, PART) > PART:
                return f"could be {member} in a mapping of its own, with --kind {other}"
    return "no known name"
