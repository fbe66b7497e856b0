"""Loads that rules refused in the drop directory, and whose files wait for an operator (D158).

A hold is over once a later load of the register and kind succeeds, unless it merges older files of
the DVSA; once the register is rolled back, dropped, undropped or purged; or once a file of the load
is gone from `failed/`. An operator ends it, too, who rejects the load.

To accept one is to load its files again, which `app.jobs.decisions` does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from peewee import fn

from app import clock
from app.actions import Actor, of_command, record
from app.errors import Hindered, OperatorError
from app.registers.dropped.kept import FAILED, are_there, list_names
from app.registers.dropped.uploads import is_marker
from app.registers.formats import FileFault
from app.registers.generations import locked
from app.registers.history import (
    MERGE,
    REPLACE,
    RegisterLoad,
    find_load,
    json_list,
    json_text,
    refused_by,
)
from app.registers.reading.sources import DATED_PART, date_of, sorted_by_date
from app.registers.recovery import subject_of
from app.storage import reserve
from app.storage.engine import Engine

HELD, ACCEPTED = "held", "accepted"
"""How lists show the status of a load whose hold is not over, or whose files were loaded since."""


class RejectionNote(msgspec.Struct, frozen=True):
    """The decision that the files of a held load are wrong."""

    by: str
    """The name of the operator."""
    at: int
    """When it was made, in Unix seconds."""


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the files of a held load wait, and how to load them again; a column of the history."""

    drop: str
    """The path of the drop directory."""
    folders: list[str]
    """The path from there to the directory that has `failed/`."""
    files: list[str]
    """The names of the files in `failed/`, in the order in which they are loaded."""
    markers: list[str]
    options: list[str]
    """The words of the option file."""
    rejected: RejectionNote | None = None


class HeldLoad(NamedTuple):
    """A load that was held."""

    id: int
    register: str
    kind: str
    mode: str
    reason: str
    broken: Mapping[str, str]
    """The rules that it breaks: by name, the explanation in numbers."""
    checksum: str
    """SHA-256 of the decompressed content of its files."""
    since: int
    """When it ended, in Unix seconds."""
    hold: Hold

    @property
    def place(self) -> tuple[str, ...]:
        """The path from the drop directory to the files."""
        return (*self.hold.folders, FAILED)

    @property
    def directory(self) -> Path:
        return Path(self.hold.drop).joinpath(*self.place)

    @property
    def files(self) -> list[str]:
        return [str(self.directory / name) for name in self.hold.files]

    @property
    def is_there(self) -> bool:
        """Whether all files are still there, as far as this host can tell."""
        return are_there(Path(self.hold.drop), self.place, self.hold.files)

    def require_same(self, checksum: str) -> None:
        """Raise FileFault if other content was read than that which was refused."""
        if checksum != self.checksum:
            raise FileFault(
                f"The content differs from that which load {self.id} refused. Move the file from "
                f"{self.directory} back to the directory above it, to load it as a new one."
            )


class HeldBack(Hindered):
    """A held merge holds back a load of its register and kind."""


def note_hold(engine: Engine, load_id: int, hold: Hold, broken: Mapping[str, str]) -> None:
    """Note that a load is held. Raises OperatorError if the history does not have its refusal."""
    refused = (RegisterLoad.id == load_id) & RegisterLoad.broken.is_null(False)
    with engine.atomic():
        line = RegisterLoad.select().where(refused & (RegisterLoad.status == "failed"))
        load = line.first(engine)
        if load is None:
            raise OperatorError(f"load {load_id} cannot be held: the history has no refusal")
        moved = f"held in {Path(hold.drop).joinpath(*hold.folders, FAILED)}"
        columns = {
            "hold": json_text(hold),
            "broken": json_text(broken),
            "reason": f"the load breaks rules: {explained(broken)}",
            "notes": json_text([*json_list(load.notes, str), moved]),
        }
        RegisterLoad.update(**columns).where(refused).execute(engine)


def explained(broken: Mapping[str, str]) -> str:
    """Return rules with their explanations, as a clause."""
    return "; ".join(f"{name}: {told}" for name, told in broken.items())


def open_holds(engine: Engine) -> list[HeldLoad]:
    """Return the held loads whose hold is not over, the first one first.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    load, later = RegisterLoad, RegisterLoad.alias()
    # PERF: SQL leaves only those out of a year's holds that names of files have to decide.
    may_be_older = (later.mode == MERGE) & later.files.contains(DATED_PART)
    ended = fn.EXISTS(later.select(later.id).where(_may_end(later, load) & ~may_be_older))
    rows = load.select().where(load.hold.is_null(False) & ~ended).order_by(load.id)
    # Files that were refused again are held by the last line: nothing in `failed/` is overwritten.
    holds = {(each.directory, *each.hold.files): each for each in map(_held, rows.execute(engine))}
    return [
        each
        for each in holds.values()
        if not each.hold.rejected and each.is_there and _ended_by(engine, each) is None
    ]


def accepted_holds(engine: Engine) -> dict[int, int]:
    """Return the load that loaded the files of each accepted one, by the number of that one."""
    columns = (RegisterLoad.id, RegisterLoad.accepts, RegisterLoad.status)
    lines = RegisterLoad.select(*columns).where(RegisterLoad.accepts.is_null(False))
    found: dict[int, int] = {}
    # A load that was held again can have been accepted under its later number.
    for number, accepts, status in lines.order_by(RegisterLoad.id.desc()).tuples().execute(engine):
        done = number if status == "done" else found.get(number)
        if done:
            found[accepts] = done
    return found


def decided_first(holds: Sequence[HeldLoad]) -> HeldLoad:
    """Return which of the held loads of one register and kind must be decided first.

    Later merges wait for the first one; of replaces only the last is worth a decision. Files of the
    DVSA count by date, others by the order in which they were held.
    """
    merges = [each for each in holds if each.mode == MERGE]
    return sorted_by_date(merges, lambda each: each.hold.files[0])[0] if merges else holds[-1]


def _may_end(later: Any, load: Any) -> Any:
    """Return the condition of a later line that ends the hold of a load, unless it is older."""
    # A rollback, drop, undrop or purge that changes several kinds names none.
    is_same = (later.register == load.register) & later.kind.in_((load.kind, ""))
    return (later.id > load.id) & is_same & (later.status == "done")


def _ended_by(engine: Engine, held: HeldLoad) -> Any:
    """Return the line that ended the hold of a load, None if it is not over."""
    lines = RegisterLoad.select().where(_may_end(RegisterLoad, held)).order_by(RegisterLoad.id)
    # An older delta comes before a held one: whoever loads it has not decided about the later one.
    return next(
        (
            each
            for each in lines.execute(engine)
            if each.mode != MERGE or not _is_older(each.files.split("\n"), held.hold.files)
        ),
        None,
    )


def _held(row: Any) -> HeldLoad:
    return HeldLoad(
        id=row.id,
        register=row.register,
        kind=row.kind,
        mode=row.mode,
        reason=row.reason,
        broken=refused_by(row),
        checksum=row.checksum,
        since=row.finished_at,
        hold=msgspec.json.decode(row.hold, type=Hold),
    )


def spared_files(engine: Engine) -> set[Path]:
    """Return the files in `failed/` that must not be removed by age or size.

    Of replaces only the latest of each register and kind, because each night can bring one.
    """
    latest = {
        (each.register, each.kind, each.id if each.mode == MERGE else 0): each
        for each in open_holds(engine)
    }
    return {
        Path(each.hold.drop).resolve().joinpath(*each.place, name)
        for each in latest.values()
        for name in (*each.hold.files, *each.hold.markers)
    }


def require_not_held_back(
    engine: Engine, register: str, kind: str, mode: str, files: Sequence[str]
) -> None:
    """Raise HeldBack if an earlier merge of a register and kind is held.

    Replaces are not held back. Nor are files of the DVSA that are older than the held ones: they
    come first.
    """
    holds = [
        each
        for each in (open_holds(engine) if mode == MERGE else ())
        if (each.register, each.kind, each.mode) == (register, kind, MERGE)
        and not _is_older(files, each.hold.files)
    ]
    if not holds:
        return
    held = decided_first(holds)
    older = [name for name in files if _is_older([name], held.hold.files)]
    before = f"; before that, load {', '.join(older)} without the later files" if older else ""
    raise HeldBack(
        f"load {held.id} of the register {register} is held, and must be decided first: accept it "
        f'with "verifyd imports accept {held.id}", or reject it with "verifyd imports reject '
        f'{held.id}"{before}'
    )


def _is_older(files: Iterable[str], others: Iterable[str]) -> bool:
    """Tell whether files of the DVSA are all older than the latest of others."""
    dates, latest = list(map(date_of, files)), [date_of(name) or () for name in others]
    return all(each is not None and each < max(latest) for each in dates)


def require_not_rejected(engine: Engine, register: str, kind: str, checksum: str) -> None:
    """Raise FileFault if the same content was rejected and not loaded since.

    Args:
        checksum: SHA-256 of the decompressed content of all files.
    """
    load = RegisterLoad
    is_same = (load.register == register) & (load.kind == kind) & (load.checksum == checksum)
    for line in load.select().where(is_same).order_by(load.id.desc()).execute(engine):
        if line.status == "done":
            return
        held = _held(line) if line.hold else None
        if held and held.hold.rejected:
            raise FileFault(
                f"The content is that of load {held.id}, which {held.hold.rejected.by} has "
                f"rejected. {_cure(held)}"
            )


def require_acceptable(engine: Engine, load_id: int) -> HeldLoad:
    """Return a held load that can be accepted now. Raises OperatorError.

    Only under the register's lock it stays so.
    """
    held = _require_undecided(engine, load_id, "accept")
    if not Path(held.hold.drop).is_dir():
        raise OperatorError(
            f"{held.hold.drop} is not on this host; accept load {load_id} where it is"
        )
    if not held.is_there:
        names = ", ".join(held.hold.files)
        raise OperatorError(
            f"load {load_id} cannot be accepted: not all of its files are in {held.directory} any "
            f"more: {names}"
        )
    older = _older_delta(engine, held) if held.mode == MERGE else None
    if older:
        raise OperatorError(
            f"load {load_id} cannot be accepted yet: {older}, which must be loaded before it"
        )
    return held


def require_rejectable(engine: Engine, load_id: int) -> HeldLoad:
    """Return a held load that can be rejected now, whether its files are there or not.

    Raises OperatorError. Only under the register's lock it stays so.
    """
    return _require_undecided(engine, load_id, "reject")


def reject(
    engine: Engine,
    load_id: int,
    actor: Actor | None = None,
    noted: Callable[[], object] = lambda: None,
) -> HeldLoad:
    """End the hold of a load whose files are wrong, and return it; its files stay in `failed/`.

    Later loads of the drop directory with the same content fail (`require_not_rejected`).

    Args:
        actor: who rejects it; by default whoever runs this process.
        noted: called in the transaction that ends the hold.

    Raises OperatorError if the load cannot be rejected, or if one of its register runs, such as its
    acceptance.
    """
    by = actor or of_command()

    def rejected() -> HeldLoad:
        held = require_rejectable(engine, load_id)
        hold = msgspec.structs.replace(held.hold, rejected=RejectionNote(by.name, clock.now()))
        columns = {"hold": json_text(hold), "reason": f"rejected by {by.name}: {held.reason}"}
        with engine.atomic():
            RegisterLoad.update(**columns).where(RegisterLoad.id == load_id).execute(engine)
            subject, after = subject_of(held.register), {"rejects": load_id}
            record(engine, by, "imports.reject", subject, {}, after)
            noted()
        return held

    with locked(engine, require_rejectable(engine, load_id).register):
        return reserve.with_reserve(engine, rejected)


def _require_undecided(engine: Engine, load_id: int, decide: str) -> HeldLoad:
    """Return a load whose hold no operator and no later load has ended. Raises OperatorError.

    Args:
        decide: `accept` or `reject`.
    """
    line = find_load(engine, load_id)
    if line is None:
        raise OperatorError(f'there is no load {load_id}; see "verifyd imports list"')
    if line.status != "failed" or not line.broken:
        raise OperatorError(
            f"load {load_id} was not refused by rules, so there is nothing to {decide}; "
            f'"verifyd imports show {load_id}" shows how it ended'
        )
    if not line.hold:
        rules = " ".join(f"--accept {rule}" for rule in refused_by(line))
        cure = f"repeat its command with {rules}" if decide == "accept" else "it changed nothing"
        raise OperatorError(
            f"load {load_id} is not held, because it did not come from the drop directory; {cure}"
        )
    held = _held(line)
    if held.hold.rejected:
        cure = f". {_cure(held)}" if decide == "accept" else ""
        raise OperatorError(f"load {load_id} was rejected before, by {held.hold.rejected.by}{cure}")
    ended_by = _ended_by(engine, held)
    if ended_by is not None:
        cure = (
            f"; to load its files all the same, move them from {held.directory} to the directory "
            "above it"
        )
        is_loaded = ended_by.accepts == held.id or decide == "reject"
        raise OperatorError(
            f"load {load_id} cannot be {decide}ed any more: {_why(held, ended_by)}"
            f"{'' if is_loaded else cure}"
        )
    again = RegisterLoad.select().where(RegisterLoad.accepts == load_id, RegisterLoad.hold != "")
    later = again.order_by(RegisterLoad.id.desc()).first(engine)
    if later is not None:
        raise OperatorError(
            f"load {load_id} was held again, with further rules; {decide} load {later.id} instead"
        )
    return held


def _cure(held: HeldLoad) -> str:
    """Return how files that were rejected can be loaded all the same."""
    rules = " ".join(f"--accept {rule}" for rule in held.broken)
    return (
        f'To load it all the same, run "verifyd import FILE --register {held.register} --mode '
        f'{held.mode} {rules}" with its further options.'
    )


def _why(held: HeldLoad, ended_by: Any) -> str:
    """Return why a later line of the history ended a hold."""
    if ended_by.accepts == held.id:
        return f"it was accepted before, and loaded as load {ended_by.id}"
    if ended_by.mode in (MERGE, REPLACE):
        return f"load {ended_by.id} of the register {held.register} succeeded since"
    return f"load {ended_by.id}, a {ended_by.mode} of the register {held.register}, came since"


def _older_delta(engine: Engine, held: HeldLoad) -> str | None:
    """Return which older delta waits: another held one, or a file in the drop directory."""
    names: Sequence[str] = held.hold.files
    for other in open_holds(engine):
        is_same = (other.register, other.kind, other.mode) == (held.register, held.kind, MERGE)
        # Without dates, the one that came first is older.
        is_dated = all(map(date_of, (*names, *other.hold.files)))
        is_older = _is_older(other.hold.files, names) if is_dated else other.id < held.id
        if is_same and other.id != held.id and is_older:
            return f"load {other.id} is held, too"
    for name in list_names(Path(held.hold.drop), held.hold.folders):
        is_upload = not is_marker(name) and not name.startswith(".")
        if is_upload and _is_older([name], names):
            return f"{name} waits in the drop directory"
    return None
