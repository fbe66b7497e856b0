"""What the page of look-ups shows of answers, and the file that it gives (D84, D136)."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from app.csv_cells import text_cell
from app.vehicles.answer_cells import Cells, heading
from app.vehicles.answers import failure_answer
from app.vehicles.compliance import Judgement, judge
from app.vehicles.reader import Found

_DELIMITER = ","
_CHECKS = ("insurance", "MOT", "road tax", "fines")
"""The checks of a Judgement in their order."""


class Row(NamedTuple):
    """A plate of a list, and its answer in short."""

    asked: str
    registration: str | None
    """None if it is no registration."""
    error: str
    """Why there is no answer; empty if there is one."""
    judgement: Judgement | None
    failed: list[str]
    """The checks that it fails, each with its reason."""
    vehicle: str
    """Make, model and year, as far as they are known."""


class Counts(NamedTuple):
    """How many plates of a list have which answer."""

    found: int
    unknown: int
    invalid: int
    insured: int
    compliant: int


def rows_of(found: Sequence[Found], day: str, mot_first_years: int) -> list[Row]:
    """Return a row for each plate, in their order."""
    return [_row(each, day, mot_first_years) for each in found]


def counts_of(rows: Sequence[Row]) -> Counts:
    """Count the answers."""
    judged = [row.judgement for row in rows if row.judgement is not None]
    counts = Counter(row.registration is None for row in rows if row.judgement is None)
    return Counts(
        found=len(judged),
        unknown=counts[False],
        invalid=counts[True],
        insured=sum(each.insurance.is_good for each in judged),
        compliant=sum(each.is_compliant for each in judged),
    )


def csv_file(found: Sequence[Found], day: str, mot_first_years: int) -> bytes:
    """Return a file with each plate as it was given, and the columns of `lookup --csv`.

    It begins with a byte order mark, without which Excel misreads letters outside of ASCII.
    """
    cells, text = Cells(_DELIMITER, day, mot_first_years), text_cell(_DELIMITER)
    lines = [f"plate{_DELIMITER}{heading(_DELIMITER)}"]
    lines += [f"{text(each.asked)}{_DELIMITER}{cells.of_plate(each)[1]}" for each in found]
    return "\r\n".join([*lines, ""]).encode("utf-8-sig")


def _row(found: Found, day: str, mot_first_years: int) -> Row:
    record = found.record
    if record is None:
        error = failure_answer(found)["error"]
        return Row(found.asked, found.registration, error, None, [], "")
    judgement = judge(record, day, mot_first_years)
    failed = [
        f"{word}: {verdict.reason.replace('_', ' ')}"
        for word, verdict in zip(_CHECKS, judgement, strict=True)
        if not verdict.is_good
    ]
    known = (record.make, record.model, record.year)
    vehicle = " ".join(str(each) for each in known if each is not None)
    return Row(found.asked, found.registration, "", judgement, failed, vehicle)
