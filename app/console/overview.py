"""The first page: whether all is well.

It shows recorded counts, and counts no rows of registers.
"""

import os
from contextlib import suppress
from datetime import timedelta, tzinfo
from typing import NamedTuple

import falcon

from app import clock
from app.alerts.conditions import REFUSED, conditions_of
from app.alerts.disk import free_bytes_by_directory, write_fault
from app.alerts.loads import Freshness, freshness
from app.config import Config
from app.console.charts import Series, chart_of_hours
from app.console.registers import latest_loads
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import Resource, view
from app.monitoring import check
from app.monitoring.health import obstacles
from app.registers.attempts import states_of_loads
from app.registers.history import RegisterLoad, find_load
from app.serve.limits.store import LimitStore
from app.storage.engine import Engine
from app.storage.versions import versions
from app.version import line

LATEST = 8
DAYS = 14


class Disk(NamedTuple):
    """The file system of one or more directories."""

    directories: list[str]
    free_bytes: int
    total_bytes: int

    @property
    def used_percent(self) -> int:
        """The used share of the disk, from 0 to 100."""
        return round(100 * (1 - self.free_bytes / self.total_bytes)) if self.total_bytes else 100


def health(engine: Engine, config: Config, limits: LimitStore, ages: list[Freshness]) -> Values:
    """Return what is wrong, as `verifyd check` and `/readyz` say it.

    `faults` are sentences: why the service is not ready, or will not start again. `conditions` do
    not stop look-ups; each comes with the load concerned. `warnings` are further sentences of
    `verifyd check`, which alone looks for what is wrong with listeners and time zones.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    faults = [each.sentence for each in obstacles(engine, config, limits, versions(engine))]
    fault = write_fault(engine)
    if fault:
        faults.append(fault)
    # NOTE: the socket is not checked: the service listens, and its sandbox may allow no other one.
    faults += [*engine.missing_rights(), *check.directory_faults(config)]
    warnings = [*check.host_warnings(config), *check.database_warnings(engine, config)]
    conditions = [
        each for each in conditions_of(engine, config, ages=ages).conditions if each.key != REFUSED
    ]
    loads = [find_load(engine, each.load) if each.load else None for each in conditions]
    with_loads = list(zip(conditions, loads, strict=True))
    return {"faults": faults, "conditions": with_loads, "warnings": warnings}


def disks(engine: Engine, config: Config) -> list[Disk]:
    """Return the file systems of the data directories."""
    found: dict[int, Disk] = {}
    for directory, free_bytes in free_bytes_by_directory(engine, config).items():
        with suppress(OSError):
            system = os.statvfs(directory)
            disk = Disk([], free_bytes, system.f_blocks * system.f_frsize)
            disk = found.setdefault(os.stat(directory).st_dev, disk)
            if directory not in disk.directories:
                disk.directories.append(directory)
    return list(found.values())


def loads_by_day(engine: Engine, zone: tzinfo) -> tuple[list[str], list[Series]]:
    """Return the last days, and how many loads were done and failed on each.

    Those that run or were killed have not ended yet. One that is held or was accepted has not
    failed, and changed nothing itself.
    """
    today = clock.today(zone)
    days = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    counts = {day: [0, 0] for day in days}
    load, begin = RegisterLoad, clock.start_of(days[0], zone)
    query = load.select(load.id, load.started_at, load.status).where(load.started_at >= begin)
    states = states_of_loads(engine)
    for number, started_at, status in query.tuples().execute(engine):
        day = clock.day_of(started_at, zone)
        if day in counts and number not in states and status != "running":
            counts[day][status == "failed"] += 1
    return [f"{day.day} {day:%b}" for day in days], [
        Series("done", "good", [counts[day][0] for day in days]),
        Series("failed", "bad", [counts[day][1] for day in days]),
    ]


class Overview(Resource):
    """Readiness, registers, answers, loads, disks and the version."""

    @view("overview.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console."""
        engine, config = self.engine, self.config
        ages = freshness(engine, config)
        days, series = loads_by_day(engine, config.timezone)
        return {
            "health": health(engine, config, self.services.limits, ages),
            "registers": ages,
            "answers": chart_of_hours(engine, config.timezone),
            "loads": latest_loads(engine, None, LATEST),
            "disks": disks(engine, config),
            "days": days,
            "series": series,
            "program": line(),
            "has_documentation": not config.console_bind,
        }
