"""The pages of loads: list, and one load with its rejects and its progress."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import falcon
import msgspec
import peewee

from app import clock
from app.alerts.loads import numbers_of_failed
from app.console.forms import refresh
from app.console.listing import Condition, Listing
from app.console.registers import drop_directory
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import Resource, missing, number_in_path, view
from app.errors import OperatorError
from app.jobs.tasks import DONE, FAILED, RUNNING
from app.registers.attempts import AttemptState, PastLoad, find_rejects, past_load, states_of_loads
from app.registers.change_words import sections
from app.registers.diff import require_comparable
from app.registers.history import INTERRUPTED, RegisterLoad, find_load, moved_to
from app.registers.holds import ACCEPTED, HELD
from app.registers.reading.rejects import Rejected, first_rejected
from app.registers.request import allowed_in_words
from app.settings.roles import Right
from app.storage.engine import Engine

REJECTS_SHOWN = 20
STATUSES = (RUNNING, DONE, FAILED, HELD, ACCEPTED, INTERRUPTED)
_SORTABLE = {
    "started": RegisterLoad.id,
    "register": RegisterLoad.register,
    "mode": RegisterLoad.mode,
    "rows": RegisterLoad.rows,
    "rejected": RegisterLoad.rejected,
}


class LoadList(Resource):
    """All attempts to load, and other changes of registers."""

    @view("loads/list.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console/loads. Parameters: `register`, `status`, `sort`, `page`."""
        states = states_of_loads(self.engine)
        filters = {"register": _registers(self.engine), "status": STATUSES}
        listing = Listing(req, _SORTABLE, RegisterLoad.id, filters, default="-started")
        conditions: Mapping[str, Condition] = {
            "register": lambda register: RegisterLoad.register == register,
            "status": lambda status: _has_status(status, states),
        }
        found = listing.rows(RegisterLoad.select(), self.engine, conditions)
        return {
            "listing": listing,
            "loads": [past_load(each, states) for each in found],
            "drop_directory": drop_directory(self.config.data_dir),
        }


class LoadPage(Resource):
    """One load: its files, counts, rejected records with their reasons, and its progress."""

    @view("loads/detail.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response, load_id: str) -> Values:
        """GET /console/loads/{load_id}. Parameter: `refresh`."""
        found = find_load(self.engine, number_in_path(load_id))
        if found is None:
            raise missing("load", "Loads are kept for 400 days, and some for longer.", "loads")
        load = past_load(found, states_of_loads(self.engine))
        may_read = req.session.may(Right.CHANGE)
        rejects_file = find_rejects(self.config.data_dir, load)
        return {
            "load": load,
            "next_step": _next_step(self.engine, found),
            "change": load.change and sections(load.change, load.mode),
            "allowed": allowed_in_words(load.accepted),
            "can_compare": may_read and _can_compare(self.engine, load),
            "files": list(zip(load.files, load.sizes, strict=True)),
            "percent": _percent(load),
            "age_seconds": max(0, clock.now() - load.started_at),
            "rejects_file": rejects_file,
            # SEC: rejected records are register data. People who may only read see the reasons in
            # the history, which quote no records.
            "rejects": _first_rejects(rejects_file) if may_read and rejects_file else [],
            "task": self.services.tasks.of_load(load.id),
            "refreshes": refresh(req, resp, is_running=load.status == RUNNING),
        }


def _next_step(engine: Engine, load: RegisterLoad) -> str:
    """Return what to do about a load that failed, as sentences; empty if nothing is left to do."""
    if load.status != "failed" or load.hold or load.id not in numbers_of_failed(engine):
        return ""
    moved = moved_to(load)
    if moved is not None:
        step = (
            f"Correct the file in {moved}, or ask for a right one, and put it into {moved.parent}: "
            "the next night loads it."
        )
    elif load.broken:
        rules = " ".join(f"--accept {rule}" for rule in msgspec.json.decode(load.broken))
        step = f"If the file is right, repeat the command with {rules}."
    else:
        step = "Correct the cause, and load the file again."
    success = f"a load of {load.register} succeeds" if load.register else "the file is loaded"
    return f"{step} The warning about it ends when {success}."


def _can_compare(engine: Engine, load: PastLoad) -> bool:
    """Tell whether the plates whose answers a load changed can be listed."""
    try:
        require_comparable(engine, load.id)
    except OperatorError:
        return False
    return True


def _registers(engine: Engine) -> list[str]:
    """Return the names of registers in the history."""
    names = RegisterLoad.select(RegisterLoad.register).distinct().order_by(RegisterLoad.register)
    return [name for (name,) in names.tuples().execute(engine) if name]


def _has_status(status: str, states: Mapping[int, AttemptState]) -> peewee.Expression:
    if status in (INTERRUPTED, HELD, ACCEPTED):
        has_it: peewee.Expression = RegisterLoad.id.in_(
            [number for number, state in states.items() if state.status == status]
        )
        return has_it
    matches: peewee.Expression = RegisterLoad.status == status
    # A load that was killed is still recorded as running, and one that is held as failed.
    return matches & RegisterLoad.id.not_in(list(states))


def _percent(load: PastLoad) -> int | None:
    """Return how much of the present step is done, None if that is not known."""
    progress = load.progress
    if progress is None or not progress.total:
        return None
    return min(100, 100 * progress.done // progress.total)


def _first_rejects(path: Path) -> Sequence[Rejected]:
    """Return the first records of a rejects file; none if it cannot be read."""
    with suppress(OSError):
        return first_rejected(path, REJECTS_SHOWN)
    return []
