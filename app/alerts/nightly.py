"""The nightly jobs: how each run ended, and whether one was missed."""

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import peewee
from peewee import fn

from app import clock
from app.alerts.message import Condition
from app.clock_steps import old_times
from app.config import Config
from app.settings.values import EVERY_REGISTER, JOBS
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.file_lock import locked, make_directory, tried

NAMES = {
    "import": "nightly load",
    "backup": "nightly backup",
    "check": "nightly deep check",
    "prune": "nightly prune",
}
_BY_HAND = {
    "import": "load of the drop directory",
    "backup": "backup",
    "check": "deep check",
    "prune": "prune of the audit trail",
}
_FAILED = {
    "import": "did not load everything",
    "backup": "failed",
    "check": "found damage or failed",
    "prune": "removed nothing",
}
_UNITS = {"prune": "verifyd-audit-prune"}
_KEPT_SECONDS = 400 * 86_400
_UPTIME_SECONDS = 3600
"""After a boot, timers first catch up with missed runs; until then no run counts as missed."""


class JobRun(peewee.Model):
    """One run of a nightly job, written when it ends. Times are Unix seconds."""

    id = peewee.AutoField()
    job = peewee.CharField(10)
    host = peewee.CharField(255)
    is_scheduled = peewee.BooleanField()
    """Whether it ran with `--scheduled`, so that another run is expected.

    A development machine has no such run, and so nothing to warn of.
    """
    is_done = peewee.BooleanField()
    faults = peewee.TextField()
    """A JSON array of sentences about what failed; SEC: alerts send them."""
    size_bytes = peewee.BigIntegerField(null=True)
    """The size of a backup."""
    started_at = peewee.BigIntegerField()
    finished_at = peewee.BigIntegerField()

    class Meta:
        table_name = "job_run"


class Run(NamedTuple):
    """How a run of a job ended."""

    job: str
    is_scheduled: bool
    started_at: int
    faults: tuple[str, ...] = ()
    size_bytes: int | None = None

    def condition(self) -> Condition:
        """Return the condition of a failed run."""
        name = (NAMES if self.is_scheduled else _BY_HAND)[self.job]
        failed = _FAILED[self.job]
        return Condition(
            key=f"job:{self.job}",
            title=f"the {name} {failed}",
            warning=f"The {name} of {clock.iso_utc(self.started_at)} {failed}.",
            since=self.started_at,
            remedy=f"sudo journalctl -u {_unit(self.job)}",
            occurrence=str(self.started_at),
            details=self.faults,
        )


class LastRuns(NamedTuple):
    """The last runs of each job, on this host unless a member says otherwise."""

    ended: Mapping[str, Run]
    """Once a job was scheduled, only scheduled runs: others may have another destination. A deep
    check has none, so one by hand that ended well counts, too."""
    finished_at: Mapping[str, int]
    """When each of them ended."""
    scheduled_at: Mapping[str, int]
    """When the last scheduled run began."""
    backup_at: int | None
    """When the last successful backup ended, on any host."""
    backup_bytes: int | None
    swept_at: int | None
    """When the last sweep of the watches that ended well ended, on any host."""


def record(engine: Engine, data_dir: Path, run: Run) -> None:
    """Record how a run ended, also on a full disk (D57). Raises peewee.PeeweeException."""

    def write() -> None:
        with engine.atomic():
            insert_run(engine, data_dir, run)

    reserve.with_reserve(engine, write)


def insert_run(engine: Engine, data_dir: Path, run: Run) -> None:
    """Add a run that ends now, and remove old ones. Needs a transaction."""
    old = old_times(data_dir, _KEPT_SECONDS)
    is_old = JobRun.finished_at.between(old.start, old.stop - 1)
    JobRun.delete().where(is_old).execute(engine)
    values = run._asdict() | {
        "host": socket.gethostname(),
        "is_done": not run.faults,
        "faults": msgspec.json.encode(run.faults).decode(),
        "finished_at": clock.now(),
    }
    JobRun.insert(**values).execute(engine)


def last_runs(engine: Engine) -> LastRuns:
    """Return the last runs. Raises peewee.PeeweeException."""
    groups = (JobRun.job, JobRun.host, JobRun.is_scheduled, JobRun.is_done)
    newest = JobRun.select(fn.MAX(JobRun.id)).group_by(*groups)
    rows: list[JobRun] = list(
        JobRun.select().where(JobRun.id.in_(newest)).order_by(JobRun.id).execute(engine)
    )
    host = socket.gethostname()
    ours = [row for row in rows if row.host == host]
    scheduled = {row.job for row in ours if row.is_scheduled}
    counted = [
        row
        for row in ours
        if row.is_scheduled or row.job not in scheduled or (row.job == "check" and row.is_done)
    ]
    backups = [row for row in rows if row.job == "backup" and row.is_done]
    sweeps = [row.finished_at for row in rows if row.job == "sweep" and row.is_done]
    return LastRuns(
        ended={row.job: _run(row) for row in counted},
        finished_at={row.job: row.finished_at for row in counted},
        scheduled_at={row.job: row.started_at for row in ours if row.is_scheduled},
        backup_at=backups[-1].finished_at if backups else None,
        backup_bytes=backups[-1].size_bytes if backups else None,
        swept_at=sweeps[-1] if sweeps else None,
    )


def _run(row: JobRun) -> Run:
    faults = msgspec.json.decode(row.faults, type=tuple[str, ...])
    return Run(row.job, row.is_scheduled, row.started_at, faults, row.size_bytes)


def job_conditions(runs: LastRuns, config: Config) -> Iterator[Condition]:
    """Yield a condition for each job whose last run failed, or that did not run in time."""
    for job in JOBS:
        if job in runs.ended and runs.ended[job].faults:
            yield runs.ended[job].condition()
        limit = config.missed_after.get(job, config.missed_after.get(EVERY_REGISTER))
        if job in runs.scheduled_at and limit is not None:
            yield from _missed(job, runs.scheduled_at[job], limit, config.state_dir)


def _missed(job: str, last_at: int, limit: int, state_dir: Path) -> Iterator[Condition]:
    began_at = running_since(state_dir, job)
    since = last_at if began_at is None else began_at
    age = clock.now() - since
    if age <= limit or is_catching_up():
        return
    name = NAMES[job]
    what, began = ("did not run", "last began") if began_at is None else ("does not end", "began")
    yield Condition(
        key=f"missed:{job}",
        title=f"the {name} {what}",
        warning=(
            f"The {name} {what}: it {began} {clock.duration_text(age)} ago; "
            f"VERIFYD_MISSED_AFTER allows {clock.duration_text(limit)}."
        ),
        since=since + limit,
        remedy=f"systemctl status {_unit(job)}.timer {_unit(job)}.service",
    )


def _unit(job: str) -> str:
    """Return the name of the unit that runs a job each night."""
    return _UNITS.get(job, f"verifyd-{job}")


def is_catching_up() -> bool:
    """Tell whether the host booted so recently that timers may still have to catch up."""
    return clock.monotonic_ns() < _UPTIME_SECONDS * 10**9


@contextmanager
def running(state_dir: Path, job: str) -> Iterator[None]:
    """Mark a job as running until this process ends, even if it is killed.

    The mark is missing if the state directory cannot be used.
    """
    with ExitStack() as held:
        with suppress(OSError):
            make_directory(state_dir)
            path = _lock_file(state_dir, job)
            held.enter_context(locked(path, shared=True))
            os.utime(path, (clock.now(), clock.now()))
        yield


def running_since(state_dir: Path, job: str) -> int | None:
    """Return when the job that is running on this host began; None if it is not running."""
    path = _lock_file(state_dir, job)
    with suppress(OSError), tried(path, create=False) as is_free:
        return None if is_free else int(path.stat().st_mtime)
    return None


def _lock_file(state_dir: Path, job: str) -> Path:
    return state_dir / f"job-{job}.lock"


def shortened(sentences: Sequence[str], most: int = 20) -> tuple[str, ...]:
    """Return at most `most` sentences; the last one counts those that were left out."""
    if len(sentences) <= most:
        return tuple(sentences)
    return (*sentences[: most - 1], f"and {len(sentences) - most + 1} more")
