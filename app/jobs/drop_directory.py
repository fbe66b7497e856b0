"""The load of the drop directory as a job: all its files, one load after another (D60)."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import InitVar, dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import msgspec
import peewee

from app import actions, clock
from app.alerts.loads import numbers_of_failed, shown_files
from app.clock_steps import old_times
from app.config import Config
from app.errors import OperatorError
from app.jobs.job import Job, reason_of
from app.jobs.loads import Ended, LoadProcess, ShowProgress, note_moved, note_refused
from app.jobs.sweeping import sweeps_held_off
from app.registers.dropped import kept
from app.registers.dropped.directory import Batch, batches, keep, put_aside, remove
from app.registers.dropped.uploads import is_marker
from app.registers.holds import Hold, explained, note_hold, spared_files
from app.registers.options import dropped_request
from app.storage import reserve
from app.storage.file_lock import make_directory, tried
from app.storage.interface import Waiting
from app.storage.session import opened_database

_LOCK = "drop.lock"
_log = logging.getLogger("verifyd.jobs")

Item = dict[str, Any]
"""A load as the command prints it: its files, its status, and more about how it ended."""


class NotAllLoaded(OperatorError):
    """Some files were not loaded; the job knows which."""


class NotLoaded(NamedTuple):
    """The files of a load that failed or was skipped."""

    names: list[str]
    outcome: str
    """What happened, and where the files are now."""
    load_id: int | None
    """The number of the load; None if it is not in the history."""


@dataclass
class DropDirectory(Job[None]):
    """Loads all files in a directory, each load in a process of its own.

    A load that fails does not stop the others.
    """

    name = "import"
    is_alerted = True

    directory: Path
    options: Path | None
    """The directory of the option files; None if there is none."""
    waiting: InitVar[Waiting]
    """Tells the user what a load waits for."""
    shown: InitVar[ShowProgress]
    loaded: Callable[[Item], object]
    """Receives each load as it ends."""
    is_scheduled: bool
    items: list[Item] = field(default_factory=list, init=False)
    """The loads so far."""
    is_complete: bool = field(default=False, init=False)
    """Whether all files were looked at; false if the job could not begin."""
    failed: list[NotLoaded] = field(default_factory=list, init=False)
    skipped: set[str] = field(default_factory=set, init=False)
    """A sentence for each file that was not loaded and stays where it is."""
    in_history: set[int] = field(default_factory=set, init=False)
    """Numbers of failed loads that alerts read from the history."""

    def __post_init__(self, waiting: Waiting, shown: ShowProgress) -> None:
        """Prepare what runs the loads."""
        self._loads = LoadProcess(waiting, shown)
        self._warnings: set[str] = set()
        self._undecided: set[str] = set()
        """The warnings about loads that are held, or wait for a held one."""
        self._stopped_by = 0

    @contextmanager
    def lock(self, config: Config) -> Iterator[None]:
        """Keep other processes from loading a drop directory.

        Raises OperatorError if one does, or if the database or the directories cannot be used.
        """
        with opened_database(config):
            pass  # A wrong database must not look like a fault of the files.
        if not self.directory.is_dir():
            raise OperatorError(
                f"{self.directory} does not exist, or is not a directory; create it, or correct "
                "the path"
            )
        if self.options is not None and not os.access(self.options, os.R_OK | os.X_OK):
            raise OperatorError(f"{self.options} does not exist, or cannot be read")
        make_directory(config.state_dir)
        path = config.state_dir / _LOCK
        with tried(path) as is_held:
            if not is_held:
                since = clock.iso_utc(int(path.stat().st_mtime))
                raise OperatorError(
                    f'another "verifyd import --drop" is running since {since}; '
                    "try again when it has ended"
                )
            os.utime(path, (clock.now(), clock.now()))
            with opened_database(config) as engine, sweeps_held_off(engine):
                yield

    def do(self, config: Config) -> None:
        """Load all files. Raises NotAllLoaded at the end if a load failed or was skipped.

        A scheduled run succeeds if all others wait for a decision: what a unit failed for should
        not be over only with its next run, and alerts report these loads until they are decided.
        """
        with self._stoppable():
            if self.is_scheduled:
                kept.remember(config.data_dir, self.directory)
            self._prune(config)
            for batch in batches(self.directory, config.drop_wait, self._skip):
                self._load(batch, config)
                if self._loads.is_stopped:
                    break
            self._prune(config)
        with suppress(OperatorError, peewee.PeeweeException), opened_database(config) as engine:
            self.in_history = numbers_of_failed(engine)
        self.is_complete = True
        if self._loads.is_stopped:
            raise KeyboardInterrupt(self._stopped_by)
        if self._warnings - (self._undecided if self.is_scheduled else set()):
            raise NotAllLoaded(
                f"not everything in {self.directory} was loaded; the reasons are above"
            )

    def faults(self, error: BaseException | None) -> list[str]:
        """Return a sentence for each failure that alerts do not read from the history."""
        faults = [
            f"{shown_files(each.names)}: {each.outcome}."
            for each in self.failed
            if each.load_id not in self.in_history
        ]
        if self.skipped:
            faults.append(f"Left alone: {len(self.skipped)}; the log of the job names them.")
        is_explained = isinstance(error, NotAllLoaded) and (faults or self.in_history)
        if error is not None and not is_explained:
            faults.append(reason_of(error))
        return faults

    def _load(self, batch: Batch, config: Config) -> None:
        """Load a batch. Then move or remove its files, or let the next run load them."""
        files = [str(file.path) for file in batch.files]
        try:
            request = dropped_request(files, batch.register, self.options)
        except OperatorError as error:
            self._refuse(batch, files, error, config)
            return
        request = request._replace(
            are_trusted=False,
            waits_for_holds=True,
            require_whole=batch.require_whole,
            actor=None if self.is_scheduled else actions.of_command(),
        )
        ended = self._loads.run(request, config)
        while ended.needed and self._has_made_room(*ended.needed):
            ended = self._loads.run(request, config)
        if ended.status == "failed" and batch.changed():
            ended = msgspec.structs.replace(ended, status="hindered")
        if ended.result is not None:
            (keep if config.keep_loaded else remove)(batch, self._skip)
        elif ended.is_held_back:
            # An alert about the held load lasts as long as files wait for it.
            self._wait(f"{batch}: left for the next run: {ended.reason}")
        elif ended.broken and ended.status == "failed":
            ended = self._held(batch, ended, request.option_words, config)
        else:
            self._settle(batch, ended, config)
        item: Item = {"files": files, "status": ended.status, "reason": ended.reason}
        self._report(item | (ended.result._asdict() if ended.result else ended.details))

    def _refuse(self, batch: Batch, files: list[str], error: OperatorError, config: Config) -> None:
        """Report a batch that a mistake in its options prevents; its files stay."""
        load_id = note_refused(config, files, batch.register, error)
        self._warn(f"{error}\n{batch}: skipped")
        outcome = "skipped because of a mistake in its options"
        self.failed.append(NotLoaded(batch.names, outcome, load_id))
        refused: Item = {"files": files, "status": "failed", "reason": str(error)}
        self._report(refused | dict(error.details))

    def _settle(self, batch: Batch, ended: Ended, config: Config) -> None:
        """Move the files of a failed load to `failed/`; the files of a hindered load stay."""
        aside = put_aside(batch, self._warn) if ended.status == "failed" else None
        load_id = ended.details.get("load")
        if aside and load_id and config.keep_failed:
            note_moved(config, load_id, aside)
        where = f"moved to {aside}" if aside else "left for the next run"
        self.failed.append(NotLoaded(batch.names, f"not loaded; {where}", load_id))
        self._warn(f"{ended.message or ended.reason}\n{batch}: not loaded; {where}")

    def _held(self, batch: Batch, ended: Ended, options: Sequence[str], config: Config) -> Ended:
        """Let the files of a load that breaks rules wait in `failed/` until somebody decides."""
        load_id = ended.details.get("load")

        def note(names: Sequence[str]) -> None:
            # The note comes first: a file that is put aside without one could not be accepted.
            files = [name for name in names if not is_marker(name)]
            markers = [name for name in names if is_marker(name)]
            hold = Hold(str(batch.drop), list(batch.folders), files, markers, list(options))
            with opened_database(config) as engine:
                reserve.with_reserve(engine, note_hold, engine, load_id or 0, hold, ended.broken)

        aside = None
        try:
            aside = put_aside(batch, self._warn, announce=note)
        except (OperatorError, peewee.PeeweeException) as error:
            self._warn(f"{batch}: its load cannot be held: {error}")
        warn, where = self._warn, "left for the next run"
        if aside:
            warn = self._wait
            where = (
                f'held in {aside}; accept it with "verifyd imports accept {load_id}", or reject it '
                f'with "verifyd imports reject {load_id}"'
            )
        self.failed.append(NotLoaded(batch.names, f"not loaded; {where}", load_id))
        reason = f"the load breaks rules: {explained(ended.broken)}"
        warn(f"{reason}\n{batch}: not loaded; {where}")
        status = "held" if aside else "hindered"
        return msgspec.structs.replace(ended, status=status, reason=reason)

    def _report(self, item: Item) -> None:
        self.items.append(item)
        self.loaded(item)

    def _has_made_room(self, directory: str, needed_bytes: int) -> bool:
        """Remove loaded files that are kept for convenience, if that makes room for a load."""
        return kept.make_room(self.directory, Path(directory), needed_bytes, self._warn)

    def _prune(self, config: Config) -> None:
        """Remove kept files that are too old, and the oldest above the size limit."""
        prune, limit = partial(kept.prune, self.directory), config.drop_limit
        prune(kept.LOADED, _old(config, config.keep_loaded), limit, self._warn)
        # Without the history nobody knows which files are held.
        with suppress(OperatorError, peewee.PeeweeException), opened_database(config) as engine:
            spared = spared_files(engine)
            prune(kept.FAILED, _old(config, config.keep_failed), limit, self._warn, spared)

    def _warn(self, sentence: str) -> None:
        """Log a warning for the operator, once."""
        if sentence not in self._warnings:
            self._warnings.add(sentence)
            _log.warning("%s", sentence)

    def _wait(self, sentence: str) -> None:
        """Log a warning about a load that waits for a decision."""
        self._undecided.add(sentence)
        self._warn(sentence)

    def _skip(self, sentence: str) -> None:
        """Report a file that was not loaded and stays where it is."""
        self.skipped.add(sentence)
        self._warn(sentence)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Let TERM and Ctrl-C end the running load, and start no other one."""

        def stop(number: int, _frame: FrameType | None) -> None:
            self._stopped_by = number
            self._loads.stop()

        numbers = (signal.SIGINT, signal.SIGTERM)
        former = [signal.signal(number, stop) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, former, strict=True):
                signal.signal(number, handler)


def _old(config: Config, keep_seconds: int) -> range:
    """Return the times since which files were kept for too long; with 0 that is any time."""
    return old_times(config.data_dir, keep_seconds) if keep_seconds else range(sys.maxsize)
