"""Watches and events as people read them: words, cells, and plates of records (D188)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from app import clock
from app.audit.record import Plate
from app.watches.feed import Event, id_of
from app.watches.repository import StoredWatch
from app.watches.told import Checks, ToldChecks

CHECKS: Final = {"insurance": "insurance", "mot": "MOT", "tax": "road tax", "fines": "fines"}
"""The names of checks in words."""
_CHECK_CELLS = ("", "_reason", "_last_day")
WATCH_COLUMNS: Final = (
    *("registration", "lead_days", "reference", "until", "reason", "created", "as_of", "known"),
    *(f"{check}{part}" for check in Checks._fields for part in _CHECK_CELLS),
)
EVENT_COLUMNS: Final = ("id", "time", "type", "registration", "reference", "before", "after")
_WORDS = {True: "true", False: "false"}


def words_of(state: Any) -> str:
    """Return the state of a check or of all checks in words, given as answers have it."""
    if state is None:
        return "unknown vehicle"
    if "valid" in state:
        return _verdict(state)
    return "; ".join(f"{CHECKS[name]} {_verdict(each)}" for name, each in state.items())


def _verdict(check: Mapping[str, Any]) -> str:
    verdict, reason = "valid" if check["valid"] else "not valid", check["reason"].replace("_", " ")
    why = "" if reason == verdict else f" ({reason})"
    end = f" until {check['lastDay']}" if check["lastDay"] else ""
    return f"{verdict}{why}{end}"


def watch_cells(watch: StoredWatch) -> list[str]:
    """Return the cells of WATCH_COLUMNS."""
    plate, lead_days, reference, reason, until = watch.terms
    cells = [plate, " ".join(map(str, lead_days)), reference or "", until or "", reason or ""]
    cells += [clock.iso_utc(watch.created_at), watch.as_of, _WORDS[watch.told is not None]]
    for check in watch.told or ():
        cells += [_WORDS[check.valid], check.reason, check.last_day or ""]
    return cells + [""] * (len(WATCH_COLUMNS) - len(cells))


def states_of(kind: str, before: Any, after: Any) -> tuple[str, str]:
    """Return the states before and after an event in words, given as answers have them.

    A watch that has ended has no state after it.
    """
    return words_of(before), "" if kind == "watch.ended" else words_of(after)


def states_of_event(event: Event) -> tuple[str, str]:
    """Return the states before and after an event of the database in words."""
    return states_of(event.type, *map(msgspec.json.decode, (event.before, event.after)))


def event_cells(feed: str, event: Event) -> list[str]:
    """Return the cells of EVENT_COLUMNS."""
    about = (event.type, event.registration, event.reference or "")
    return [id_of(feed, event), clock.iso_utc(event.at), *about, *states_of_event(event)]


def told_plate(plate: str, told: ToldChecks) -> Plate:
    """Return the entry of a plate whose state an account can read: the verdict of each check."""
    checks = {} if told is None else {name: each.valid for name, each in told._asdict().items()}
    return Plate(plate, found=told is not None, checks=checks)


def plates_of_watches(watches: Iterable[StoredWatch]) -> list[Plate]:
    """Return what the audit trail has of watches that somebody is shown."""
    return [told_plate(each.terms.registration, each.told) for each in watches]


def plates_of_events(events: Sequence[Event]) -> list[Plate]:
    """Return what the audit trail has of events that somebody is shown: each plate once."""
    types: dict[str, list[str]] = {}
    for event in events:
        types.setdefault(event.registration, []).append(event.type)
    return [Plate(plate, events=list(dict.fromkeys(each))) for plate, each in types.items()]
