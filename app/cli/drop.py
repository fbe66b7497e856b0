"""`verifyd import --drop`: load what lies in a directory, then keep it for a while (D60, D74)."""

import argparse
import fcntl
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Literal

import msgspec
import peewee

from app.cli import loads
from app.cli.nightly import Job, NotAllLoaded, nightly
from app.cli.option_files import options_of
from app.cli.output import print_item, print_items
from app.cli.session import opened_database
from app.config import Config
from app.directories import make_directory
from app.errors import Hindered, OperatorError
from app.logs import logged_to_stderr
from app.operations.conditions.loads import numbers_of_failed
from app.registers.attempts import Attempt
from app.registers.dropped import kept
from app.registers.dropped.batch import Batch, keep, put_aside, remove
from app.registers.dropped.directory import batches
from app.registers.forked_worker import Child
from app.registers.request import LoadRequest, LoadResult
from app.registers.space import TooLittleSpace

_LOCK = "drop.lock"
_log = logging.getLogger(__name__)


class Ended(msgspec.Struct, frozen=True):
    """How a load ended: `hindered` is one whose files are not to blame."""

    status: Literal["loaded", "failed", "hindered"]
    reason: str | None = None
    message: str | None = None
    """The reason and what a person is shown besides it."""
    details: dict[str, Any] = {}
    result: LoadResult | None = None
    needed: tuple[str, int] | None = None
    """A directory that has too little space for the load, and the bytes that it needs there."""


def load_drop(args: argparse.Namespace, directory: Path, options: Path | None) -> None:
    """Load everything in a directory, each load in a process of its own.

    What fails does not stop the others. Raises OperatorError at the end if anything failed, was
    hindered or was skipped; before anything is loaded if the settings are wrong, or another
    process does the same.
    """
    with nightly("import", is_scheduled=args.scheduled) as job:
        _load_drop(args, directory, options, job)


def _load_drop(args: argparse.Namespace, directory: Path, options: Path | None, job: Job) -> None:
    config = Config.from_env()
    with opened_database(config):
        pass  # Files are not to blame for wrong settings.
    if not directory.is_dir():
        raise OperatorError(f"{directory} does not exist, or is not a directory")
    if options is not None and not os.access(options, os.R_OK | os.X_OK):
        raise OperatorError(f"{options} does not exist, or cannot be read")
    drop = _Drop(args, config, directory, options, job)
    with _alone(config.state_dir), logged_to_stderr(), _stoppable(drop):
        if args.scheduled:
            kept.remember(config.data_dir, directory)
        drop.prune()
        for batch in batches(directory, config.drop_wait, drop.skip):
            drop.load(batch)
            if drop.is_stopped:
                break
        drop.prune()
    with suppress(OperatorError, peewee.PeeweeException), opened_database(config) as engine:
        job.told = numbers_of_failed(engine)
    drop.close()


class _Drop:
    """The loads of one command, one after the other, and what was said of them."""

    def __init__(
        self,
        args: argparse.Namespace,
        config: Config,
        directory: Path,
        options: Path | None,
        job: Job,
    ) -> None:
        self.is_stopped = False
        self._stopped_by = 0
        self._args = args
        self._config = config
        self._directory = directory
        self._options = options
        self._child: Child | None = None
        self._told: list[dict[str, Any]] = []
        self._warnings: dict[str, None] = {}
        self._job = job

    def warn(self, sentence: str) -> None:
        """Tell what an operator has to look at, once."""
        if sentence not in self._warnings:
            self._warnings[sentence] = None
            _log.warning("%s", sentence)

    def skip(self, sentence: str) -> None:
        """Warn of what was left alone."""
        self._job.left.add(sentence)
        self.warn(sentence)

    def load(self, batch: Batch) -> None:
        """Load a batch; then keep its files, put them aside, or leave them for the next run."""
        files = [str(file.path) for file in batch.files]
        names = [file.path.name for file in batch.files]
        try:
            options = options_of(batch.register, self._options)
            request = loads.request_of(options, files, batch.register)
        except OperatorError as error:
            load_id = loads.note_refused(files, batch.register, error)
            self.warn(f"{error}\n{batch}: skipped")
            outcome = "skipped, there is a mistake in its options"
            self._job.failed.append((names, outcome, load_id))
            refused: dict[str, Any] = {"files": files, "status": "failed", "reason": str(error)}
            self._tell(refused | dict(error.details))
            return
        request = request._replace(are_trusted=False, require_whole=batch.require_whole)
        ended = self._ended(request)
        while ended.needed and self._has_made_room(*ended.needed):
            ended = self._ended(request)
        if ended.status == "failed" and batch.changed():
            ended = msgspec.structs.replace(ended, status="hindered")
        self._settle(batch, ended)
        told: dict[str, Any] = {"files": files, "status": ended.status, "reason": ended.reason}
        self._tell(told | (ended.result._asdict() if ended.result else ended.details))

    def _settle(self, batch: Batch, ended: Ended) -> None:
        """Do with the files what their load's end asks for."""
        if ended.result is not None:
            finish = keep if self._config.keep_loaded else remove
            finish(batch, self.skip)
            return
        aside = put_aside(batch, self.warn) if ended.status == "failed" else None
        where = f"moved to {aside}" if aside else "left for the next run"
        names = [file.path.name for file in batch.files]
        self._job.failed.append((names, f"not loaded; {where}", ended.details.get("load")))
        self.warn(f"{ended.message or ended.reason}\n{batch}: not loaded; {where}")

    def _has_made_room(self, directory: str, needed_bytes: int) -> bool:
        """Remove what is kept for no need but convenience, if a load then finds room."""
        return kept.make_room(self._directory, Path(directory), needed_bytes, self.warn)

    def prune(self) -> None:
        """Remove what has been kept for long enough, and what is too much (D74)."""
        limit = self._config.drop_limit
        kept.prune(self._directory, kept.LOADED, self._config.keep_loaded, limit, self.warn)
        kept.prune(self._directory, kept.FAILED, self._config.keep_failed, limit, self.warn)

    def stop(self, number: int, _frame: FrameType | None) -> None:
        """Abandon the load that runs, in good order, and begin no other: a signal's handler."""
        self.is_stopped = True
        self._stopped_by = number
        if self._child is not None:
            self._child.stop()

    def close(self) -> None:
        """Print what is printed at the end; raise OperatorError if not all went well."""
        if self._args.json:
            print_items(self._args, self._told, ())
        if self.is_stopped:
            raise KeyboardInterrupt(self._stopped_by)
        if self._warnings:
            raise NotAllLoaded(
                f"not everything in {self._directory} was loaded; the reasons are above"
            )

    def _tell(self, told: dict[str, Any]) -> None:
        self._told.append(told)
        if not self._args.json and told["status"] == "loaded":
            print_item(self._args, told)
            sys.stdout.flush()

    def _ended(self, request: LoadRequest) -> Ended:
        """Do a load in a process of its own, and return how it ended."""
        source, target = os.pipe()
        with open(source, "rb") as reading:
            with open(target, "wb") as writing:
                self._child = Child(lambda: _work(request, writing), [writing])
                if self.is_stopped:  # The signal came before there was a child.
                    self._child.stop()
            told = reading.read()
            self._child.wait()
        if told:
            return msgspec.json.decode(told, type=Ended)
        status: Literal["failed", "hindered"] = "hindered" if self.is_stopped else "failed"
        return Ended(status, "the process of the load was killed")


def _work(request: LoadRequest, writing: BinaryIO) -> None:
    """Do a load as a process of its own, and write how it ended."""
    # What stops the command comes from its parent, however many processes were sent it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with writing:
        writing.write(msgspec.json.encode(_loaded(request)))


def _loaded(request: LoadRequest) -> Ended:
    attempt = Attempt(request)
    try:
        return Ended("loaded", result=loads.run(request, attempt))
    except KeyboardInterrupt:
        return Ended("hindered", "interrupted", details=attempt.details())
    except OperatorError as error:
        status: Literal["failed", "hindered"]
        status = "hindered" if isinstance(error, Hindered) else "failed"
        needed = None
        if isinstance(error, TooLittleSpace):
            needed = (str(error.directory), error.needed_bytes)
        return Ended(status, error.sentence, str(error), dict(error.details), needed=needed)
    except Exception as error:
        # SEC: the stack without the message: a message can quote a record.
        _log.exception("unexpected %s", type(error).__name__)
        reason = f"the load failed: {type(error).__name__}"
        return Ended("failed", reason, details=attempt.details())


@contextmanager
def _alone(state_dir: Path) -> Iterator[None]:
    """Let no other process do the same meanwhile. Raises OperatorError if one does."""
    make_directory(state_dir)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(state_dir / _LOCK, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperatorError("another `verifyd import --drop` is running") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _stoppable(drop: _Drop) -> Iterator[None]:
    """Let TERM and Ctrl-C stop the loads in good order."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    former = [signal.signal(number, drop.stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)
