"""The pages of loads: list, and one load with its rejects and its progress (D69, D135)."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import falcon

from app import clock
from app.config import Config
from app.console.forms import refresh
from app.console.listing import Listing
from app.console.register_actions import number
from app.console.registers import drop_directory
from app.console.rendering import ConsoleRequest, PageError, Services, session_of
from app.console.roles import RIGHTS, Right
from app.jobs.register_tasks import Tasks
from app.jobs.tasks import DONE, FAILED, RUNNING
from app.registers.history import INTERRUPTED, RegisterLoad, find_load, interrupted_loads
from app.registers.past_load import PastLoad, find_rejects, past_load
from app.registers.reading.rejects import Rejected, first_rejected
from app.storage.engine import Engine

REJECTS_SHOWN = 20
_PLACE = "loads"
STATUSES = (RUNNING, DONE, FAILED, INTERRUPTED)
_SORTABLE: Mapping[str, Any] = {
    "started": RegisterLoad.id,
    "register": RegisterLoad.register,
    "mode": RegisterLoad.mode,
    "rows": RegisterLoad.rows,
    "loaded": RegisterLoad.loaded,
    "rejected": RegisterLoad.rejected,
}


class Rejects(NamedTuple):
    """The rejects file of a load."""

    path: Path
    rows: Sequence[Rejected] | None
    """The first records. None if the person may not read them, or they cannot be read."""


class LoadList:
    """All attempts to load, and what else changed registers."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/loads. Parameters: `register`, `status`, `sort`, `page`."""
        engine, config, _, pages, _ = self._services
        registers = _registers(engine)
        interrupted = interrupted_loads(engine)
        filters = {"register": registers, "status": STATUSES}
        listing = Listing(req, _SORTABLE, RegisterLoad.id, filters, default="-started")
        found = listing.rows(_chosen(listing.filters, interrupted), engine)
        pages.send(
            req,
            resp,
            "loads/list.html",
            listing=listing,
            loads=[past_load(each, interrupted) for each in found],
            registers=registers,
            statuses=STATUSES,
            drop_directory=drop_directory(config),
        )

    on_head = on_get


class LoadPage:
    """One load: its files and counts, what was rejected and why, and how far it has got."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tasks = Tasks(services.engine, services.config.state_dir)

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, load_id: str) -> None:
        """GET /console/loads/{load_id}. Parameter: `refresh`."""
        engine, config, _, pages, _ = self._services
        found = find_load(engine, number(load_id))
        if found is None:
            text = "Loads are kept for 400 days, and some for longer."
            raise PageError(404, "There is no such load", text, back=(_PLACE,))
        load = past_load(found, interrupted_loads(engine))
        is_running = load.status == RUNNING
        may_read = Right.CHANGE in RIGHTS[session_of(req).role]
        pages.send(
            req,
            resp,
            "loads/detail.html",
            load=load,
            files=list(zip(load.files, load.sizes, strict=True)),
            percent=_percent(load),
            age_seconds=max(0, clock.now() - load.started_at),
            rejects=_rejects(config, load, may_read=may_read),
            task=self._tasks.of_load(load.id),
            refreshes=refresh(req, resp, is_running=is_running),
        )

    on_head = on_get


def _registers(engine: Engine) -> list[str]:
    """Return the names of registers in the history."""
    names = RegisterLoad.select(RegisterLoad.register).distinct().order_by(RegisterLoad.register)
    return [name for (name,) in names.tuples().execute(engine) if name]


def _chosen(filters: Mapping[str, str], interrupted: Collection[int]) -> Any:
    """Return a query for the loads that the filters leave."""
    query = RegisterLoad.select()
    if filters["register"]:
        query = query.where(RegisterLoad.register == filters["register"])
    was_killed = RegisterLoad.id.in_(list(interrupted))
    match filters["status"]:
        case "interrupted":
            query = query.where(was_killed)
        case "running":
            query = query.where((RegisterLoad.status == RUNNING) & ~was_killed)
        case "done" | "failed" as status:
            query = query.where(RegisterLoad.status == status)
    return query


def _percent(load: PastLoad) -> int | None:
    """Return how much of the present step is done, None if that is not known."""
    progress = load.progress
    if progress is None or not progress.total:
        return None
    return min(100, 100 * progress.done // progress.total)


def _rejects(config: Config, load: PastLoad, *, may_read: bool) -> Rejects | None:
    """Return the rejects file, None if there is none on this host.

    SEC: rejected records are register data. Those who only read see the reasons of the history,
    which quote none.
    """
    path = find_rejects(config.data_dir, load)
    if path is None:
        return None
    rows = None
    if may_read:
        with suppress(OSError):
            rows = first_rejected(path, REJECTS_SHOWN)
    return Rejects(path, rows)
