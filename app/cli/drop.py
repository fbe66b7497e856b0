"""`verifyd import --drop`: load the files in a directory and keep them for a time (D60, D74)."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import peewee

from app import actions, clock
from app.alerts.loads import numbers_of_failed
from app.cli import load_options, loads
from app.cli.load_options import options_of
from app.cli.load_process import Ended, LoadProcess
from app.cli.nightly import Job, NotAllLoaded, NotLoaded, nightly
from app.cli.output import counted, print_item, print_items, print_sentence, waiting_for
from app.config import Config
from app.errors import OperatorError
from app.logs import progress_log
from app.registers.dropped import kept
from app.registers.dropped.batch import Batch, keep, put_aside, remove
from app.registers.dropped.directory import batches
from app.storage.file_lock import make_directory, tried
from app.storage.session import opened_database

_LOCK = "drop.lock"
_log = logging.getLogger("app.cli.drop")


def load_drop(args: argparse.Namespace, directory: Path, options: Path | None) -> None:
    """Load all files in a directory, each load in a process of its own.

    A load that fails does not stop the others. Raises OperatorError at the end if a load failed,
    was hindered or was skipped; before the first load if the settings are wrong, or if another
    `import --drop` is running.
    """
    with nightly("import", is_scheduled=args.scheduled) as job:
        _load_drop(args, directory, options, job)


def _load_drop(args: argparse.Namespace, directory: Path, options: Path | None, job: Job) -> None:
    config = Config.from_env()
    with opened_database(config):
        pass  # Wrong settings must not look like a fault of the files.
    if not directory.is_dir():
        raise OperatorError(
            f"{directory} does not exist, or is not a directory; create it, or correct the path"
        )
    if options is not None and not os.access(options, os.R_OK | os.X_OK):
        raise OperatorError(f"{options} does not exist, or cannot be read")
    drop = _Drop(args, config, directory, options, job)
    with _only_one(config.state_dir), progress_log(), _stoppable(drop):
        if args.scheduled:
            kept.remember(config.data_dir, directory)
        drop.prune()
        for batch in batches(directory, config.drop_wait, drop.skip):
            drop.load(batch)
            if drop.is_stopped:
                break
        drop.prune()
    with suppress(OperatorError, peewee.PeeweeException), opened_database(config) as engine:
        job.in_history = numbers_of_failed(engine)
    drop.close()


class _Drop:
    """The loads of one command, one after another, and what was reported about them."""

    def __init__(
        self,
        args: argparse.Namespace,
        config: Config,
        directory: Path,
        options: Path | None,
        job: Job,
    ) -> None:
        self._loads = LoadProcess(partial(waiting_for, args))
        self._stopped_by = 0
        self._args = args
        self._config = config
        self._directory = directory
        self._options = options
        self._reported: list[dict[str, Any]] = []
        self._warnings: dict[str, None] = {}
        self._job = job

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped the command."""
        return self._loads.is_stopped

    def warn(self, sentence: str) -> None:
        """Log a warning for the operator, once."""
        if sentence not in self._warnings:
            self._warnings[sentence] = None
            _log.warning("%s", sentence)

    def skip(self, sentence: str) -> None:
        """Report a file that was not loaded and stays where it is."""
        self._job.left.add(sentence)
        self.warn(sentence)

    def load(self, batch: Batch) -> None:
        """Load a batch. Then move or remove its files, or leave them for the next run."""
        files = [str(file.path) for file in batch.files]
        names = [file.path.name for file in batch.files]
        try:
            options = options_of(batch.register, self._options)
            request = load_options.request_of(options, files, batch.register)
            load_options.require_same_register(request)
        except OperatorError as error:
            load_id = loads.note_refused(files, batch.register, error)
            self.warn(f"{error}\n{batch}: skipped")
            outcome = "skipped because of a mistake in its options"
            self._job.failed.append(NotLoaded(names, outcome, load_id))
            refused: dict[str, Any] = {"files": files, "status": "failed", "reason": str(error)}
            self._report(refused | dict(error.details))
            return
        request = request._replace(
            are_trusted=False,
            require_whole=batch.require_whole,
            actor=None if self._args.scheduled else actions.of_command(),
        )
        ended = self._loads.run(request)
        while ended.needed and self._has_made_room(*ended.needed):
            ended = self._loads.run(request)
        if ended.status == "failed" and batch.changed():
            ended = msgspec.structs.replace(ended, status="hindered")
        self._settle(batch, ended)
        item: dict[str, Any] = {"files": files, "status": ended.status, "reason": ended.reason}
        self._report(item | (ended.result._asdict() if ended.result else ended.details))

    def _settle(self, batch: Batch, ended: Ended) -> None:
        """Move or remove the files of a load, depending on how it ended."""
        if ended.result is not None:
            finish = keep if self._config.keep_loaded else remove
            finish(batch, self.skip)
            return
        aside = put_aside(batch, self.warn) if ended.status == "failed" else None
        load_id = ended.details.get("load")
        if aside and load_id and self._config.keep_failed:
            loads.note_moved(load_id, aside)
        where = f"moved to {aside}" if aside else "left for the next run"
        names = [file.path.name for file in batch.files]
        self._job.failed.append(NotLoaded(names, f"not loaded; {where}", load_id))
        self.warn(f"{ended.message or ended.reason}\n{batch}: not loaded; {where}")

    def _has_made_room(self, directory: str, needed_bytes: int) -> bool:
        """Remove loaded files that are kept for convenience, if that makes room for a load."""
        return kept.make_room(self._directory, Path(directory), needed_bytes, self.warn)

    def prune(self) -> None:
        """Remove kept files that are too old, and the oldest above the size limit (D74)."""
        limit = self._config.drop_limit
        kept.prune(self._directory, kept.LOADED, self._config.keep_loaded, limit, self.warn)
        kept.prune(self._directory, kept.FAILED, self._config.keep_failed, limit, self.warn)

    def stop(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal: end the running load, and start no other one."""
        self._stopped_by = number
        self._loads.stop()

    def close(self) -> None:
        """Print the JSON document or the last sentence.

        Raises OperatorError if not everything was loaded.
        """
        if self._args.json:
            print_items(self._args, self._reported, ())
        if self.is_stopped:
            raise KeyboardInterrupt(self._stopped_by)
        if self._warnings:
            raise NotAllLoaded(
                f"not everything in {self._directory} was loaded; the reasons are above"
            )
        if not self._args.json:
            print_sentence(f"{counted(len(self._reported), 'load')} done from {self._directory}")

    def _report(self, item: dict[str, Any]) -> None:
        self._reported.append(item)
        if not self._args.json and item["status"] == "loaded":
            print_item(self._args, item)
            print()
            sys.stdout.flush()


@contextmanager
def _only_one(state_dir: Path) -> Iterator[None]:
    """Keep other processes from loading a drop directory. Raises OperatorError if one does."""
    make_directory(state_dir)
    with tried(state_dir / _LOCK) as is_held:
        if not is_held:
            since = clock.iso_utc(int((state_dir / _LOCK).stat().st_mtime))
            raise OperatorError(
                f'another "verifyd import --drop" is running since {since}; '
                "try again when it has ended"
            )
        os.utime(state_dir / _LOCK, (clock.now(), clock.now()))
        yield


@contextmanager
def _stoppable(drop: _Drop) -> Iterator[None]:
    """Let TERM and Ctrl-C end the running load."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    former = [signal.signal(number, drop.stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)
