"""A record of the audit trail: who looked up which vehicles, why, and what they were told.

A record is a line of JSON. SEC: it holds no policy numbers, no vehicle data and no secrets.
"""

from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from app import clock
from app.accounts.restrictions import Restrictions
from app.errors import BAD_JSON, OperatorError

INVALID_CHARACTERS_MAX: Final = 32


class AuditError(OperatorError):
    """The trail cannot be used. The message says why, for the log and the operator."""


class Plate(msgspec.Struct, omit_defaults=True, gc=False):
    """A plate of a look-up, and what the client was told about it."""

    plate: str
    """Its canonical form, or the beginning of a text that is no registration."""
    found: bool | None = None
    insured: bool | None = None
    compliant: bool | None = None
    unknown: tuple[str, ...] = ()
    """The names of the members of the answer that no register knows (D198)."""
    invalid: bool = False
    """Whether the text is no registration."""
    suggested: bool = False
    """Whether it was not asked for, but shown in place of one that is not known (D175)."""
    checks: dict[str, bool] = {}
    """Of a watch: the verdict of each check that the account was told."""
    events: list[str] = []
    """Of a watch: the types of its events that the account was told."""

    def is_unknown(self, verdict: str) -> bool:
        """Tell whether a verdict that the client was told is one that no register knows.

        Args:
            verdict: `insured` or `compliant`.
        """
        # The API names the verdict of a period so.
        return verdict in self.unknown or "validThroughout" in self.unknown


class Criteria(msgspec.Struct, omit_defaults=True):
    """What a search or an export of the trail asked for."""

    plate: str | None = None
    account: str | None = None
    user: str | None = None
    since: str | None = msgspec.field(default=None, name="from")
    until: str | None = msgspec.field(default=None, name="to")

    def __post_init__(self) -> None:
        """Escape bytes of arguments that are not UTF-8, which a record cannot hold."""
        self.account, self.user = (each and _encodable(each) for each in (self.account, self.user))


class Upkeep(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What a record says about the trail itself: a prune, or an accepted fault."""

    keep: str | None = None
    """Of a prune: the age that is kept, such as `24m`."""
    before: str | None = None
    """Of a prune: all records that it removes are older than this time."""
    segments: int = 0
    """Of a prune: how many it removes."""
    accepted: list[str] = []
    """Of a prune: what was accepted for this run, `clock` or `amount`."""
    fault: str | None = None
    """Of an acknowledgement: the subject of the fault."""
    since: str | None = msgspec.field(default=None, name="from")
    until: str | None = msgspec.field(default=None, name="to")
    """Of a gap: while the trail was switched off. Of an acknowledgement that a prune has written
    again: `from` is when it was made."""


class Record(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One look-up, or one use of the trail itself. Members without a value are left out."""

    time: str
    """`YYYY-MM-DDTHH:MM:SS.ffffffZ`."""
    request_id: str | None = None
    account: str | None = None
    key: str | None = None
    """The id of the key."""
    operation: str
    rule: int | None = None
    """2 if the answers tell what is not known (D198), else None."""
    as_of: str | None = None
    """The day that the request named."""
    first_day: str | None = None
    last_day: str | None = None
    """The period that the request named: then the plates have its verdicts."""
    reason: str | None = None
    reference: str | None = None
    user: str | None = None
    login: str | None = None
    """Who ran a command, as the host knows the session."""
    sudo_user: str | None = None
    unverified: bool = False
    """Whether `login` and `sudo_user` are only what the command's environment says."""
    only: str | None = None
    networks: list[str] = []
    """What the key is restricted to."""
    criteria: Criteria | None = None
    upkeep: Upkeep | None = None
    plates: list[Plate] = []
    registers: dict[str, int] = {}
    """The generation of each register that was read."""


encode_lines = msgspec.json.Encoder().encode_lines
decode_record = msgspec.json.Decoder(Record).decode


def find_record(line: bytes) -> Record | None:
    """Return the record of a line; None if the line is no record, because somebody changed it."""
    try:
        return decode_record(line)
    except BAD_JSON:
        return None


def time_of(epoch_ns: int) -> str:
    """Return Unix nanoseconds as the `time` of a record."""
    return clock.iso_utc_microseconds(epoch_ns)


def time_of_second(epoch_seconds: int) -> str:
    """Return Unix seconds as the `time` of a record."""
    return time_of(epoch_seconds * 10**9)


def time_of_moment(moment: datetime) -> str:
    """Return a moment in UTC as the `time` of a record."""
    # NOTE: isoformat() leaves microseconds out if they are zero.
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def invalid_plate(text: str) -> Plate:
    """Return the entry of a text that is no registration: its first 32 characters."""
    return Plate(_encodable(text[:INVALID_CHARACTERS_MAX]), invalid=True)


def _encodable(text: str) -> str:
    """Return a text that a record can hold: arguments of commands may have bytes of no UTF-8."""
    return text.encode(errors="backslashreplace").decode()


class Row(NamedTuple):
    """What a search shows of a record; a member without a value is empty."""

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
    """What the client was told about the plate, and about which days."""


def row_of(record: Record) -> Row:
    plate, answer = _told(record)
    return Row(
        time=record.time,
        operation=record.operation,
        account=record.account or record.sudo_user or record.login or "",
        key=_key(record),
        user=record.user or "",
        reason=record.reason or "",
        reference=record.reference or "",
        plate=plate,
        answer=" ".join(filter(None, [answer, _days(record)])),
    )


def _key(record: Record) -> str:
    """Return the id of the key, and what it is restricted to."""
    restrictions = Restrictions(record.only, record.networks).in_words()
    return f"{record.key or ''} ({restrictions})" if restrictions else record.key or ""


def _days(record: Record) -> str:
    if record.first_day is not None:
        return f"in the period {record.first_day} to {record.last_day}"
    return "" if record.as_of is None else f"on {record.as_of}"


def _told(record: Record) -> tuple[str, str]:
    asked = [each for each in record.plates if not each.suggested] or record.plates
    if len(asked) == 1:
        (plate,) = asked
        answer = ": ".join(filter(None, [", ".join(plate.events), _verdicts(plate)]))
        suggested = len(record.plates) - 1
        return plate.plate, answer + f", {suggested} suggested" * bool(suggested)
    if asked:
        return f"{len(asked):,} plates", ""
    return (record.criteria.plate or "" if record.criteria else ""), ""


def _verdicts(plate: Plate) -> str:
    if plate.invalid:
        return "invalid"
    if plate.suggested:
        return "suggested"
    if plate.events and plate.found is None:
        return ""
    if not plate.found:
        return "not found"
    verdicts = {"insured": plate.insured, "compliant": plate.compliant}
    told = [
        _verdict(name, value, plate.is_unknown(name))
        for name, value in verdicts.items()
        if value is not None
    ]
    told += [f"{name} {'valid' if value else 'not valid'}" for name, value in plate.checks.items()]
    return ", ".join(told) or "found"


def _verdict(name: str, value: bool, is_unknown: bool) -> str:
    if is_unknown:
        return f"not known if {name}"
    return name if value else f"not {name}"
