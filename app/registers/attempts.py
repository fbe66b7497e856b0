"""Attempts to load: each leaves a line in the history, whatever becomes of it (D69)."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import peewee

from app.errors import OperatorError
from app.registers.baseline import prune
from app.registers.history import INTERRUPTED, note_refused
from app.registers.models import text_of
from app.registers.reading.intake import Intake
from app.registers.reading.rejects import RejectsFile
from app.registers.reading.sources import file_size
from app.registers.reading.streams import printable
from app.registers.request import LoadRequest
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.errors import message_of

_log = logging.getLogger(__name__)


class Attempt:
    """What is known of an attempt to load, from its beginning on."""

    def __init__(self, request: LoadRequest) -> None:
        named = request.formats.get(request.format or "")
        self.load_id: int | None = None
        """Its number, once the history has a line of it."""
        self.rejects: RejectsFile | None = None
        self.line: dict[str, Any] = files_line(request.files) | {
            "register": request.register or (named.register if named else ""),
            "kind": request.kind or "",
            "format": request.format or "",
            "mode": request.mode,
            "accepted": text_of(request.accepted),
        }
        """What the history keeps of it before anything was read."""

    def recognised(self, register: str, intake: Intake) -> None:
        """Learn what the files are."""
        self.rejects = intake.rejects
        self.line |= {
            "register": register,
            "kind": intake.kind.value,
            "format": intake.format.name,
        }

    def details(self) -> dict[str, object]:
        """Return what a report of its failure shows besides the reason."""
        reasons = self.rejects.reasons if self.rejects else []
        return {"load": self.load_id, "reasons": reasons}


@contextmanager
def noted(engine: Engine, attempt: Attempt, *, dry_run: bool) -> Iterator[None]:
    """Leave a line of an attempt that fails before its load has begun; a dry run leaves none."""
    try:
        yield
    except BaseException as error:
        if attempt.load_id is None and not dry_run:
            attempt.load_id = note_attempt(engine, reason_of(error), attempt.line)
            which = "a load" if attempt.load_id is None else f"load {attempt.load_id}"
            _log.warning("%s: refused, %s", which, type(error).__name__)
        raise


def note_attempt(engine: Engine, reason: str, line: dict[str, Any]) -> int | None:
    """Note an attempt that never began; returns its number, None if the database is lost."""
    load_id = None
    with suppress(OSError, peewee.PeeweeException):
        load_id = reserve.written(engine, partial(note_refused, engine, reason, **line))
        prune(engine)  # A night may have no other loads that do it.
    return load_id


def files_line(files: Sequence[str]) -> dict[str, str]:
    """Return the names and sizes of files as the history keeps them."""
    return {
        "files": "\n".join(printable(Path(file).name or file) for file in files),
        "sizes": text_of(list(map(file_size, files))),
    }


def reason_of(error: BaseException) -> str:
    """Return why an attempt failed, as one sentence for the history."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    # SEC: not all that Postgres says: its details quote the row.
    sentence = error.sentence if isinstance(error, OperatorError) else message_of(error)
    return printable("; ".join(sentence.splitlines())) or type(error).__name__
