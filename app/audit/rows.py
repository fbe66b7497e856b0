"""What a search shows of a record, on a terminal and in the console."""

from typing import NamedTuple

from app.audit.record import Plate, Record


class Row(NamedTuple):
    """A record in short; a member without a value is empty."""

    time: str
    operation: str
    account: str
    """The account; of a command, who ran it."""
    key: str
    user: str
    reason: str
    reference: str
    plate: str
    """The plate, or how many there were."""
    answer: str
    """What the client was told about the plate."""


def row_of(record: Record) -> Row:
    """Return the row of a record."""
    plate, answer = _told(record)
    return Row(
        time=record.time,
        operation=record.operation,
        account=record.account or record.sudo_user or record.login or "",
        key=record.key or "",
        user=record.user or "",
        reason=record.reason or "",
        reference=record.reference or "",
        plate=plate,
        answer=answer,
    )


def _told(record: Record) -> tuple[str, str]:
    if len(record.plates) == 1:
        return record.plates[0].plate, _answer(record.plates[0])
    if record.plates:
        return f"{len(record.plates):,} plates", ""
    return (record.criteria.plate or "" if record.criteria else ""), ""


def _answer(plate: Plate) -> str:
    if plate.invalid:
        return "invalid"
    if not plate.found:
        return "not found"
    verdicts = {"insured": plate.insured, "compliant": plate.compliant}
    told = [
        name if value else f"not {name}" for name, value in verdicts.items() if value is not None
    ]
    return ", ".join(told) or "found"
