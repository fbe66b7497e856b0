"""The decision about a held load as a job: its files are loaded again, or rejected (D158)."""

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from app import actions
from app.actions import Actor
from app.config import Config
from app.errors import OperatorError
from app.jobs.job import NICENESS, Job, is_attended
from app.jobs.loads import ShowProgress, load_files
from app.registers.attempts import Attempt
from app.registers.dropped import kept
from app.registers.holds import HeldLoad, explained, note_hold, reject, require_acceptable
from app.registers.options import held_request
from app.registers.request import LoadResult
from app.registers.rules import RulesBroken
from app.storage import reserve
from app.storage.interface import Waiting
from app.storage.session import opened_database
from app.storage.tables import Kind

_log = logging.getLogger("verifyd.jobs")


@dataclass(kw_only=True)
class Acceptance(Job[LoadResult]):
    """The acceptance of a held load by an operator at the command line."""

    niceness = NICENESS
    logs_progress = False
    is_alerted = True

    load_id: int
    waiting: Waiting
    shown: ShowProgress

    def do(self, config: Config) -> LoadResult:
        """Load the files. Raises OperatorError if that is not possible."""
        return accept(config, self.load_id, actions.of_command(), self.waiting, self.shown)


@dataclass(kw_only=True)
class Rejection(Job[HeldLoad]):
    """The rejection of a held load by an operator at the command line."""

    is_alerted = True

    load_id: int
    waiting: Waiting

    def do(self, config: Config) -> HeldLoad:
        """End the hold. Raises OperatorError if that is not possible."""
        with opened_database(config, waiting=self.waiting) as engine:
            return reject(engine, self.load_id)


def accept(
    config: Config,
    load_id: int,
    actor: Actor,
    waiting: Waiting = nullcontext,
    shown: ShowProgress = lambda: nullcontext(lambda _: None),
) -> LoadResult:
    """Load the files of a held load again, with exactly its rules accepted.

    Args:
        load_id: the held load.
        actor: who accepts it.

    Raises OperatorError if the load cannot be accepted now or fails. If it breaks further rules,
    it is held again under its new number.
    """
    with opened_database(config, waiting=waiting) as engine:
        held = require_acceptable(engine, load_id)
    request = held_request(held.hold.options, held.files, held.register)._replace(
        kind=Kind(held.kind),
        mode=held.mode,
        accept=list(held.broken),
        are_trusted=False,
        is_attended=is_attended(),
        repeats=held.id,
        actor=actor,
    )
    attempt = Attempt(request)
    try:
        result = load_files(request, attempt, config, waiting, shown)
    except RulesBroken as error:
        broken, new_id = {**held.broken, **error.broken}, attempt.load_id or 0
        with opened_database(config) as engine:
            reserve.with_reserve(engine, note_hold, engine, new_id, held.hold, broken)
        raise OperatorError(
            f"load {new_id} breaks rules that load {held.id} did not show: "
            f"{explained(error.broken)}; it is held instead of load {held.id}",
            error.details,
        ) from error
    _put_away(held, is_kept=bool(config.keep_loaded))
    return result


def _put_away(held: HeldLoad, *, is_kept: bool) -> None:
    """Move the files of an accepted load to `loaded/`, or remove them."""
    drop, hold = Path(held.hold.drop), held.hold
    try:
        there = kept.list_names(drop, held.place)
        names = [name for name in (*hold.files, *hold.markers) if name in there]
        if is_kept:
            kept.move(drop, hold.folders, kept.LOADED, names, of=[kept.FAILED])
        else:
            kept.remove(drop, held.place, names)
    except OSError as error:
        _log.warning("%s: loaded, but left there: %s", held.directory, error.strerror)
