"""Tells whether this host's clock jumped. Until it is accepted, nothing is removed by age (D162).

`clock.json` in VERIFYD_DATA_DIR says what the clock said in this boot, and when it was last
trusted. Each host has its own file. It is replaced by a rename, so a killed process leaves the
former one. Only the user who wrote it can read it.
"""

import socket
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from app import clock
from app.actions import Subject, changing, record
from app.errors import BAD_JSON, OperatorError
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.files import read_bytes, replace

JUMP_SECONDS = 3 * 86_400
"""How far the clock may be from the time since the boot, and how far a boot may set it back."""
OFF_SECONDS = 30 * 86_400
"""How long a host may be off."""
EARLIEST = 1_577_836_800
"""2020-01-01, before this program was made. Earlier times are those of a clock that was not set:
a machine without a battery boots in 1970."""
_FILE = "clock.json"
_NOTED_SECONDS = 3600
"""How often a time is written."""

_Seconds = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800)]  # Up to the year 9999.


class Anchor(msgspec.Struct, frozen=True):
    """The content of the file."""

    boot: str
    """The identifier of the boot."""
    time: _Seconds
    """What the clock said when it was first trusted in this boot, in Unix seconds."""
    since_boot: _Seconds
    """The seconds since the boot at that moment. They never drift far, and nobody sets them."""
    trusted: _Seconds
    """The latest time that was trusted, in Unix seconds."""
    behind_from: _Seconds = 0
    """What the clock said at least while it was behind."""
    behind_until: _Seconds = 0
    """What it said at most then; data between these times can be young."""
    behind_at: _Seconds = 0
    """What it should have said at most then; 0 if it never was behind."""


class ClockState(NamedTuple):
    """What is known of the clock. Times are Unix seconds."""

    now_at: int
    """What it says."""
    expected_at: int | None
    """What it should say; after a boot, what it said last. None if that is not known."""
    fault: str
    """A clause that says why it is not trusted; empty if it is."""
    anchor: Anchor | None
    """What is known; None if nothing is."""


def clock_fault(data_dir: Path) -> str:
    """Return a clause that says why the clock is not trusted; empty if it is."""
    return look(data_dir).fault


def old_times(data_dir: Path, kept_seconds: int) -> range:
    """Return the times whose data may be removed now, because it has at least this age.

    Everything that is removed by age asks here. The range is empty while the clock is not trusted.
    What the clock wrote while it was not set, or was behind, is not in it before it has the age.
    """
    found = look(data_dir)
    first, end = EARLIEST, 0 if found.fault else found.now_at - kept_seconds + 1
    known = found.anchor
    if known is not None and found.now_at - known.behind_at < kept_seconds:
        if end > known.behind_until:
            first = max(first, known.behind_until + 1)
        else:
            end = min(end, known.behind_from)
    return range(first, end)


def look(data_dir: Path) -> ClockState:
    """Return the state of the clock. If it is trusted, note that, and if it is behind, too.

    Without the file, or if it is damaged, the clock is trusted as it is. If it cannot be written,
    only this process and those that it forks know when the clock jumps.
    """
    path, now = data_dir / _FILE, clock.now()
    try:
        boot, since_boot = clock.boot_id(), _since_boot()
        anchor = _find(path, boot)
    except OSError as error:
        return ClockState(now, None, f"{error.filename} cannot be read: {error.strerror}", None)
    expected, fault = _judged(anchor, now, boot, since_boot)
    if not fault:
        anchor = _noted(path, anchor, Anchor(boot, now, since_boot, now))
    elif anchor is not None and expected is not None and now < expected:
        anchor = _noted_behind(path, anchor, now, expected)
    return ClockState(now, expected, fault, anchor)


def accept(engine: Engine, data_dir: Path) -> ClockState:
    """Trust the clock from now on as it is, and record that as an action of an operator.

    Returns the state before; if the clock was trusted, nothing is changed or recorded. A process
    that is killed may leave the record without its effect, so the command can be repeated.

    Raises OperatorError if the clock was never set, and OSError if the file cannot be written.
    """
    found = look(data_dir)
    if not found.fault:
        return found
    if found.now_at < EARLIEST:
        raise OperatorError(f"{found.fault}; set the clock first")
    before = None if found.expected_at is None else {"time": clock.iso_utc(found.expected_at)}
    after = {"time": clock.iso_utc(found.now_at)}

    def write() -> None:
        with changing(engine):
            host = Subject("host", socket.gethostname())
            record(engine, None, "clock.accept", host, before, after)

    reserve.with_reserve(engine, write)
    # NOTE: without the times when it was behind, because these may have been the right ones.
    _write(data_dir / _FILE, Anchor(clock.boot_id(), found.now_at, _since_boot(), found.now_at))
    return found


def _judged(anchor: Anchor | None, now: int, boot: str, since_boot: int) -> tuple[int | None, str]:
    """Return what the clock should say, and why it is not trusted."""
    never_set = ""
    if now < EARLIEST:
        never_set = f"the clock says {clock.iso_utc(now)}, so it was never set"
    if anchor is None:
        return None, never_set
    if anchor.boot == boot:
        expected, ahead_max = anchor.time + since_boot - anchor.since_boot, JUMP_SECONDS
        reference = "the time since the boot"
    else:
        expected, ahead_max = anchor.trusted, OFF_SECONDS
        reference = f"{clock.iso_utc(expected)}, when it was last trusted before the boot"
    ahead = now - expected
    if never_set:
        return expected, never_set
    if -JUMP_SECONDS <= ahead <= ahead_max:
        return expected, ""
    where = "ahead of" if ahead > 0 else "behind"
    return expected, f"the clock is {clock.duration_text(abs(ahead))} {where} {reference}"


def _since_boot() -> int:
    return clock.monotonic_ns() // 10**9


def _find(path: Path, boot: str) -> Anchor | None:
    """Return what is known; None if nothing is, or the file is damaged. Raises OSError."""
    try:
        found = msgspec.json.decode(read_bytes(path), type=Anchor)
    except (FileNotFoundError, NotADirectoryError, *BAD_JSON):
        found = None
    if found is None or found.boot != boot:
        return _unwritten.get(path, found)
    return found


def _noted(path: Path, former: Anchor | None, now: Anchor) -> Anchor:
    """Note that the clock is trusted now. The other members of a boot's anchor stay.

    PERF: the file is written after a boot and once an hour, because /readyz is asked often.
    """
    if former is not None and former.boot == now.boot:
        if now.trusted < former.trusted + _NOTED_SECONDS:
            return former
        now = msgspec.structs.replace(former, trusted=now.trusted)
    elif former is not None:
        trusted = max(former.trusted, now.trusted)
        behind = former.behind_from, former.behind_until, former.behind_at
        now = Anchor(now.boot, now.time, now.since_boot, trusted, *behind)
    _try_write(path, now)
    return now


def _noted_behind(path: Path, anchor: Anchor, now: int, expected: int) -> Anchor:
    """Note what the clock may say until the next look, although it is behind."""
    soon, later = _NOTED_SECONDS, 2 * _NOTED_SECONDS
    is_noted = anchor.behind_from <= now < anchor.behind_until - soon
    if is_noted and expected < anchor.behind_at - soon:
        return anchor
    first = max(0, now - later)
    anchor = msgspec.structs.replace(
        anchor,
        behind_from=min(first, anchor.behind_from) if anchor.behind_at else first,
        behind_until=max(now + later, anchor.behind_until),
        behind_at=expected + later,
    )
    _try_write(path, anchor)
    return anchor


def _try_write(path: Path, anchor: Anchor) -> None:
    try:
        _write(path, anchor)
    except OSError:
        _unwritten[path] = anchor
    else:
        _unwritten.pop(path, None)


def _write(path: Path, anchor: Anchor) -> None:
    replace(path, msgspec.json.encode(anchor) + b"\n")


_unwritten: dict[Path, Anchor] = {}
"""What could not be written. Processes that are forked later know it, too."""
