"""The morning report: one screen of plain text, sent also when all is well.

Alerts are silent on a good night, and so is a machine that is dead: a report a day tells the two
apart. No host needs a role for it, because the first one records it under a lock of the database.

SEC: like an alert it has names, counts and ages. It has no value of a row.
"""

import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import msgspec
from peewee import fn

from app import clock
from app.alerts.certificate import validity_of
from app.alerts.conditions import gathered
from app.alerts.disk import free_bytes_by_directory
from app.alerts.loads import UNRECOGNISED, freshness, held_key, rows_read
from app.alerts.message import REPORT, Condition, Message, new_message
from app.alerts.nightly import NAMES, JobRun, Run, insert_run, shortened
from app.alerts.spool import Spool
from app.audit.state import AuditState, owner_fault, summary_of
from app.config import Config
from app.errors import OperatorError
from app.registers.attempts import states_of_loads
from app.registers.change import change_of
from app.registers.change_words import brief
from app.registers.history import (
    COUNTS,
    MERGE,
    REPLACE,
    ROLLBACK,
    UNSEEN_FAILURE,
    RegisterLoad,
    interrupted_loads,
    list_running,
    refused_by,
    unopened_reason,
)
from app.registers.holds import ACCEPTED, HELD, decided_first, open_holds
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.files import size_text

LINES_MAX, COLUMNS_MAX = 24, 80
_JOB = "report"
_DAY_SECONDS = 86_400
_OWN_PAUSE_SECONDS = 4 * 3600
"""A report that is late, because the host was off, is no reason to omit the next one."""
_OTHERS_PAUSE_SECONDS = 22 * 3600
"""Less than a day, because timers vary, and the clocks go forward once a year."""
_CLOCKS_SECONDS = 3600
_LOCK = 0x76666D  # any number that no other lock uses
_OPTION = re.compile(r"--allow-(missing|unterminated|loss)\b")


def words_of(loads: Sequence[RegisterLoad]) -> str:
    """Return what one or more loads of a register have changed, in a few words."""
    changes = [change for load in loads if (change := change_of(load))]
    if len(changes) == len(loads):
        return str(brief(*changes))
    # The release before did not count what a load changed.
    changed = sum(load.changed for load in loads)
    return f"{changed:,} changed" if changed else "no change"


def refusal_of(load: RegisterLoad) -> str:
    """Return why a load failed: the rules that refused it, and counts.

    SEC: the reason itself can quote a record, except if no file was opened.
    """
    reason = unopened_reason(load)
    if reason is not None:
        return reason
    options = dict.fromkeys(_OPTION.findall(load.reason or ""))
    return ", ".join([*refused_by(load), *options, rows_read(load)])


def send(engine: Engine, config: Config, faults: Sequence[str] = ()) -> Message | JobRun:
    """Queue the report, unless this host or another one has just done so.

    A host that is killed before the commit sends it, and so may another: twice is better than
    never.

    Args:
        faults: the faults of the settings, from `Config.read`.

    Returns the message, or the run that sent the last report. Raises OSError or
    peewee.PeeweeException if it cannot be queued; then another host can send it.
    """
    spool = Spool(config.data_dir)
    message = composed_report(engine, config, faults)

    def write() -> Message | JobRun:
        with engine.atomic():
            engine.take_advisory_lock(_LOCK)
            last = _last_report(engine)
            if last is not None:
                is_ours = last.host == message.host
                pause = _OWN_PAUSE_SECONDS if is_ours else _OTHERS_PAUSE_SECONDS
                if clock.now() - last.started_at < pause:
                    return last
            run = Run(_JOB, is_scheduled=True, started_at=message.created_at)
            insert_run(engine, config.data_dir, run)
            spool.put(message, dict(spool.alerted()))
            return message

    spool.prepare()
    with spool.locked():
        return reserve.with_reserve(engine, write)


def _last_report(engine: Engine) -> JobRun | None:
    """Return the run that sent the last report, on any host.

    The clocks of hosts differ a little. A much later time is that of a clock that was wrong.
    """
    latest = clock.now() + _CLOCKS_SECONDS
    runs = JobRun.select().where((JobRun.job == _JOB) & (JobRun.started_at <= latest))
    last: JobRun | None = runs.order_by(JobRun.started_at.desc()).first(engine)
    return last


def composed_report(engine: Engine, config: Config, faults: Sequence[str] = ()) -> Message:
    """Return the report about the time since the last one, of a week at most.

    Args:
        faults: the faults of the settings, from `Config.read`.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    now, host, last = clock.now(), socket.gethostname(), _last_report(engine)
    since = max(last.started_at if last else now - _DAY_SECONDS, now - 7 * _DAY_SECONDS)
    problems = gathered(engine, config, faults=faults).conditions
    failed = _failed(engine, since)
    counts = {"problems": len(problems), "failed loads": sum(count for _, count in failed)}
    command = "check" if problems else "imports list --failed"
    summary = ", ".join(f"{what}: {count:,}" for what, count in counts.items() if count)
    summary = summary or "all is well"
    moment, begin = (datetime.fromtimestamp(each, config.timezone) for each in (now, since))
    head = f"verifyd, {moment:%a %d %b %H:%M %Z}, since {begin:%a %d %b %H:%M}, from {host}"
    below = ["", *_registers(engine, config, since), "", *_aligned(_state(engine, config))]
    wrong = [
        f"- {each}"
        for each in shortened(_wrong(problems, failed, _held(engine)), LINES_MAX - 2 - len(below))
    ]
    more = f"; sudo verifyd {command} shows more" if wrong else ""
    text = [head, f"{summary.capitalize()}{more}", *wrong, *below]
    report = "".join(f"{line[:COLUMNS_MAX]}\n" for line in text)
    message = new_message(REPORT, f"morning report, {summary}", report, problems)
    # The next report begins here: what happened while this one was composed may not be in it.
    return msgspec.structs.replace(message, created_at=now)


_Failed = list[tuple[RegisterLoad, int]]
"""A load of each register that failed or is held, and how many such loads there are."""


def _wrong(problems: Sequence[Condition], failed: _Failed, held: _Failed) -> list[str]:
    """Return a line for each problem and each register whose loads failed, the worst first.

    Args:
        held: the load to decide first of each register and kind, and how many are held.
    """
    waiting = [
        f"{load.register}: {count:,} held, load {load.id}: {refusal_of(load)}"
        for load, count in held
    ]
    refused = [
        f"{load.register or 'unknown register'}: {count:,} failed, load {load.id}: "
        f"{refusal_of(load)}"
        for load, count in failed
    ]
    told = {f"load:{load.register or UNRECOGNISED}" for load, _ in failed}
    # The lines of the registers show most of these, so they may be left out.
    late = [each for each in problems if each.kind in ("load", "stale", "unchanged")]
    others = [each.title for each in problems if each not in late and each.kind != "held"]
    return [*others, *waiting, *refused, *(each.title for each in late if each.key not in told)]


def _failed(engine: Engine, since: int) -> _Failed:
    """Return the loads that failed since a time, the latest first."""
    load = RegisterLoad
    states = states_of_loads(engine)
    decided = [number for number, state in states.items() if state.status in (HELD, ACCEPTED)]
    is_failed: Any = UNSEEN_FAILURE | load.id.in_(interrupted_loads(engine))
    is_failed &= load.id.not_in(decided)
    is_recent = fn.COALESCE(load.finished_at, load.started_at) >= since
    counted = load.select(fn.MAX(load.id), fn.COUNT(load.id)).where(is_failed & is_recent)
    counts = dict(counted.group_by(load.register).tuples().execute(engine))
    last = load.select().where(load.id.in_(list(counts))).order_by(load.id.desc())
    return [(row, counts[row.id]) for row in last.execute(engine)]


def _held(engine: Engine) -> _Failed:
    """Return the load to decide first of each register and kind, and how many are held."""
    holds = sorted(open_holds(engine), key=held_key)
    groups = [list(group) for _, group in groupby(holds, held_key)]
    counts = {decided_first(group).id: len(group) for group in groups}
    lines = RegisterLoad.select().where(RegisterLoad.id.in_(list(counts)))
    return [(line, counts[line.id]) for line in lines.order_by(RegisterLoad.id).execute(engine)]


def _registers(engine: Engine, config: Config, since: int) -> list[str]:
    """Return a heading, and a line for each register."""
    load, killed = RegisterLoad, interrupted_loads(engine)
    is_recent: Any = COUNTS & (load.finished_at >= since)
    lines = list(load.select().where(is_recent).order_by(load.id).execute(engine))
    running = {each.register for each in list_running(engine) if each.id not in killed}
    rows = [("Register", "Last loaded", "Unchanged for", "Change")]
    for age in freshness(engine, config):
        name = age.register.name
        ours = [line for line in lines if line.register == name]
        loads = [line for line in ours if line.mode in (MERGE, REPLACE)]
        states = {
            "rolled back": any(line.mode == ROLLBACK for line in ours),
            words_of(loads) if loads else "not loaded": True,
            "stale": age.is_stale,
            "is being loaded": name in running,
        }
        change = ", ".join(state for state, is_so in states.items() if is_so)
        rows.append((name, _ago(age.loaded_at), clock.duration_text(age.unchanged_seconds), change))
    return _aligned(rows)


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows of texts as lines, in which the texts of a column are below each other."""
    rows = list(rows)
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _state(engine: Engine, config: Config) -> Iterator[tuple[str, str]]:
    """Yield what to say of each job, and of the audit trail, certificate and disks of this host."""
    for job, name in NAMES.items():
        if config.audit or job != "prune":
            yield name.capitalize(), _run_text(engine, job)
    audit = AuditState(config.audit, owner_fault(engine, config), summary_of(config))
    yield "Audit trail", audit.text
    try:
        found = validity_of(config.certificate) if config.certificate else None
        until = f"expires {clock.day_of(found.expires_at, config.timezone)}" if found else "none"
    except OperatorError:
        until = "cannot be read"
    yield "Certificate", until
    free: dict[int, str] = {}
    for directory, free_bytes in free_bytes_by_directory(engine, config).items():
        free.setdefault(os.stat(directory).st_dev, f"{size_text(free_bytes)} in {directory}")
    yield "Free on disk", ", ".join(free.values())


def _run_text(engine: Engine, job: str) -> str:
    """Return how the last run of a job ended, on any host."""
    runs = JobRun.select().where(JobRun.job == job).order_by(JobRun.id.desc())
    last, done = runs.first(engine), runs.where(JobRun.is_done).first(engine)
    texts = []
    if last is not None and not last.is_done:
        texts.append(f"failed {_ago(last.finished_at)} on {last.host}")
    if done is not None:
        size = f", {size_text(done.size_bytes)}" if done.size_bytes else ""
        texts.append(f"done {_ago(done.finished_at)} on {done.host}{size}")
    return "; ".join(texts) or "never ran"


def _ago(epoch_seconds: int) -> str:
    return f"{clock.duration_text(max(0, clock.now() - epoch_seconds))} ago"
