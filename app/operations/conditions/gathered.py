"""Everything that an operator has to look at, found once for all who show it (D76).

`verifyd check`, `/readyz`, the log of a start and the alerts show the same conditions.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import peewee

from app import clock
from app.config import Config
from app.operations.conditions.certificate import certificate_conditions
from app.operations.conditions.condition import Condition
from app.operations.conditions.disk import disk_conditions
from app.operations.conditions.jobs import LastRuns, Run, job_conditions, last_runs
from app.operations.conditions.loads import load_conditions, load_facts, stale_conditions
from app.operations.conditions.queue import queue_conditions
from app.operations.freshness import Freshness, freshness
from app.operations.writing import write_fault
from app.registers.history import find_interrupted
from app.storage.engine import Engine

_IN_DATABASE = frozenset({"load", "stale", "job", "missed", "disk"})


class Gathered(NamedTuple):
    """What was found at one moment."""

    conditions: list[Condition]
    unknown: frozenset[str] = frozenset()
    """Kinds of conditions that could not be looked for."""
    ran_until: Mapping[str, int] = {}
    """When the last recorded run of each job on this host ended."""


def conditions(
    engine: Engine,
    config: Config,
    *,
    killed: Iterable[int] = (),
    ages: list[Freshness] | None = None,
    runs: LastRuns | None = None,
) -> list[Condition]:
    """Return everything that is wrong by the database, the disk and the certificate.

    PERF: 4 ms of processor time with a history of 3,000 loads; /readyz is asked often.

    Args:
        killed: numbers of loads that were killed, where the caller looked for them.
        ages, runs: what the caller has read already.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    ages = freshness(engine, config.stale_after) if ages is None else ages
    facts = load_facts(engine, killed)
    registers = [each.register for each in ages]
    return [
        *load_conditions(facts, ages),
        *stale_conditions(ages),
        *job_conditions(runs or last_runs(engine), config),
        *disk_conditions(engine, registers, facts),
        *certificate_conditions(config.certificate),
        *queue_conditions(config),
    ]


def gathered(engine: Engine | None, config: Config, run: Run | None = None) -> Gathered:
    """Return everything that is wrong, for a command that may take its time.

    Loads that were killed are looked for, too. Without a usable database, that is a condition,
    and so is the run that has just ended.

    Args:
        engine: None if the database could not be opened.
        run: how a job has just ended; its record may be missing in a database that fails.
    """
    ran_until: Mapping[str, int] = {}
    recorded: dict[str, int] = {}
    try:
        if engine is None:
            raise peewee.OperationalError
        runs = last_runs(engine)
        ran_until = runs.finished_at
        recorded = {job: each.started_at for job, each in runs.ended.items()}
        found = conditions(engine, config, killed=find_interrupted(engine), runs=runs)
        fault = write_fault(engine)
        found += [_unusable_database(fault)] if fault else []
        unknown: frozenset[str] = frozenset()
    except (peewee.DatabaseError, peewee.InterfaceError, OSError):
        fault = "The database cannot be used."
        found = [_unusable_database(fault), *certificate_conditions(config.certificate)]
        unknown = _IN_DATABASE
    if run is not None and run.faults and recorded.get(run.job) != run.started_at:
        found = [each for each in found if each.key != run.condition().key]
        found.append(run.condition())
    return Gathered(found, unknown, ran_until)


def _unusable_database(fault: str) -> Condition:
    return Condition(
        key="database:unusable",
        title="the database cannot be used",
        warning=fault,
        since=clock.now(),
        remedy="sudo verifyd check",
    )
