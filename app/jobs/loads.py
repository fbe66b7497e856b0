"""Loads as jobs: one by itself, or each in a process of its own (D28)."""

import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import peewee

from app import actions, clock
from app.config import Config
from app.errors import Hindered, OperatorError
from app.jobs.job import NICENESS, Job, is_attended
from app.processes import ForkedWorker, ended_like_ctrl_c
from app.registers import history
from app.registers.applying.answers import LoadBasis
from app.registers.attempts import (
    Attempt,
    NotedProgress,
    file_columns,
    loads_log,
    note_attempt,
    reason_of,
)
from app.registers.holds import HeldBack
from app.registers.load import load
from app.registers.options import request_of
from app.registers.reading.reader import Show
from app.registers.request import LoadRequest, LoadResult
from app.registers.rules import RulesBroken
from app.registers.space import TooLittleSpace
from app.storage import reserve
from app.storage.errors import message_of
from app.storage.interface import Waiting
from app.storage.session import opened_database

ShowProgress = Callable[[], AbstractContextManager[Show]]
"""Returns a context that shows the user the progress of a load."""
_log = logging.getLogger("verifyd.jobs")


@dataclass(kw_only=True)
class Load(Job[LoadResult]):
    """The load of some files that an operator names."""

    niceness = NICENESS
    logs_progress = False

    files: Sequence[str]
    register: str | None
    options: Mapping[str, Any]
    """The values of `OPTIONS` by name."""
    dry_run: bool
    """Whether nothing changes, and no failure is reported."""
    waiting: Waiting
    """Tells the user what the load waits for."""
    shown: ShowProgress

    def __post_init__(self) -> None:
        """Report a failure only if it is one of a load."""
        self.is_alerted = not self.dry_run

    def do(self, config: Config) -> LoadResult:
        """Load the files. Raises OperatorError with the load's number and its first rejects."""
        try:
            request = request_of(self.options, self.files, self.register)
        except OperatorError as error:
            if not self.dry_run:
                mode, attended = self.options["mode"], is_attended()
                note_refused(config, self.files, self.register, error, mode, is_attended=attended)
            raise
        request = request._replace(
            dry_run=self.dry_run, is_attended=is_attended(), actor=actions.of_command()
        )
        with printed_by_command():
            return load_files(request, Attempt(request), config, self.waiting, self.shown)


@contextmanager
def printed_by_command() -> Iterator[None]:
    """Keep the failure of a load out of the log of a command that prints it anyway."""
    loads_log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        loads_log.setLevel(logging.NOTSET)


def load_files(
    request: LoadRequest, attempt: Attempt, config: Config, waiting: Waiting, shown: ShowProgress
) -> LoadResult:
    """Load the files of a request. A load that is ended leaves the register as it was.

    Args:
        attempt: receives the number of the load, for the report of a failure.

    Raises OperatorError with the number of the load and its first rejects as details; Hindered if
    the fault is not in the files.
    """
    try:
        with (
            _without_collection(),
            opened_database(config, waiting=waiting) as engine,
            shown() as show,
        ):
            day = clock.today(config.timezone)
            limited = request._replace(
                loss_max=config.loss_max,
                complete_registers=config.complete_registers,
                keep_snapshots=config.keep_snapshots,
                basis=LoadBasis(day.isoformat(), config.register_order, config.mot_first_years),
            )
            progress = NotedProgress(engine, attempt, show)
            return load(engine, config.data_dir, limited, progress, attempt)
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        reason = f"the database cannot be used: {message_of(error)}"
        raise Hindered(reason, attempt.details()) from error
    except OSError as error:
        raise Hindered(str(error), attempt.details()) from error
    except OperatorError as error:
        error.details = attempt.details()
        raise


@contextmanager
def _without_collection() -> Iterator[None]:
    # PERF: garbage collection would take a third of the time to read rows.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def note_refused(
    config: Config,
    files: Sequence[str],
    register: str | None,
    error: OperatorError,
    mode: str = "",
    *,
    is_attended: bool = False,
) -> int | None:
    """Add a line to the history for a load that a mistake in its options prevents (D69).

    Returns its number, or None if the database cannot be used. The details of the error get it too.

    Args:
        mode: empty if the mistake hides it.
        is_attended: whether somebody sees at a terminal that it failed.
    """
    load_id = None
    notes = history.unopened_notes(is_attended=is_attended)
    line = file_columns(files) | {"register": register or "", "mode": mode, "notes": notes}
    with suppress(OperatorError, peewee.PeeweeException), opened_database(config) as engine:
        load_id = note_attempt(engine, config.data_dir, reason_of(error), line)
    error.details = {"load": load_id, "reasons": []}
    return load_id


def note_moved(config: Config, load_id: int, directory: Path) -> None:
    """Add to the history where the files of a failed load are now, if the database can be used."""
    with suppress(OperatorError, peewee.PeeweeException), opened_database(config) as engine:
        reserve.with_reserve(engine, history.note_moved, engine, load_id, directory)


class Ended(msgspec.Struct, frozen=True):
    """How a load ended: `failed` because of its files, or `hindered` by anything else.

    A load that failed by rules is `held` if its files wait for a decision.
    """

    status: Literal["loaded", "failed", "held", "hindered"]
    reason: str | None = None
    message: str | None = None
    """The reason, and more that only a person should see."""
    details: dict[str, Any] = {}
    """Further members of the JSON document that reports the failure."""
    result: LoadResult | None = None
    broken: dict[str, str] = {}
    """The rules that refused the load: by name, the explanation in numbers."""
    is_held_back: bool = False
    """Whether a held merge holds it back."""
    needed: tuple[str, int] | None = None
    """A directory with too little space for the load, and how many bytes it needs there."""


class LoadProcess:
    """Runs loads one after another, each in a child process: a killed load ends nothing else.

    Args:
        waiting: tells the user what a load waits for.
    """

    def __init__(self, waiting: Waiting, shown: ShowProgress) -> None:
        self._waiting = waiting
        self._shown = shown
        self.is_stopped = False
        self._child: ForkedWorker | None = None

    def run(self, request: LoadRequest, config: Config) -> Ended:
        """Run a load and return how it ended."""
        source, target = os.pipe()
        with open(source, "rb") as reading:
            with open(target, "wb") as writing:
                self._child = ForkedWorker(partial(self._work, request, config, writing), [writing])
                if self.is_stopped:  # The signal arrived before the child existed.
                    self._child.stop()
            written = reading.read()
            self._child.wait()
        if written:
            return msgspec.json.decode(written, type=Ended)
        return Ended(
            "hindered" if self.is_stopped else "failed", "the process of the load was killed"
        )

    def stop(self) -> None:
        """End the running load and refuse all later ones; the register stays as it was."""
        self.is_stopped = True
        if self._child is not None:
            self._child.stop()

    def _work(self, request: LoadRequest, config: Config, writing: BinaryIO) -> None:
        """Run a load in the child process, and write how it ended to the parent."""
        # The terminal sends Ctrl-C to all processes, but only the parent may stop this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.nice(NICENESS)
        with writing:
            writing.write(msgspec.json.encode(self._ended(request, config)))

    def _ended(self, request: LoadRequest, config: Config) -> Ended:
        attempt = Attempt(request)
        try:
            with ended_like_ctrl_c():
                result = load_files(request, attempt, config, self._waiting, self._shown)
            return Ended("loaded", result=result)
        except KeyboardInterrupt:
            return Ended("hindered", "interrupted", details=attempt.details())
        except OperatorError as error:
            return Ended(
                "hindered" if isinstance(error, Hindered) else "failed",
                error.sentence,
                str(error),
                dict(error.details),
                broken=dict(error.broken) if isinstance(error, RulesBroken) else {},
                is_held_back=isinstance(error, HeldBack),
                needed=(str(error.directory), error.needed_bytes)
                if isinstance(error, TooLittleSpace)
                else None,
            )
        except Exception as error:
            # SEC: only the stack is logged, because the message can quote a record.
            _log.exception("unexpected %s", type(error).__name__)
            reason = f"the load failed: {type(error).__name__}"
            return Ended("failed", reason, details=attempt.details())
