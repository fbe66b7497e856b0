"""Notes in the history how far a running load has got, for the console (D135)."""

from contextlib import suppress
from pathlib import Path

import msgspec
import peewee

from app import clock
from app.registers.attempts import Attempt
from app.registers.history import History
from app.registers.models import json_text
from app.registers.reading.reader import Progress, Show
from app.registers.reading.streams import printable
from app.storage.engine import Engine

_EVERY_NS = 3 * 10**9
_AFTER_FAILURE_NS = 60 * 10**9


class NotedProgress:
    """Shows the progress of a load, and notes it every three seconds.

    A note that fails, as on a full disk, does not fail the load.

    Args:
        show: shows the progress to whoever runs the load.
        attempt: knows the number of the load as soon as it has one.
    """

    def __init__(self, engine: Engine, attempt: Attempt, show: Show) -> None:
        self._engine = engine
        self._attempt = attempt
        self._show = show
        self._due_ns = clock.monotonic_ns() + _EVERY_NS

    def __call__(self, progress: Progress) -> None:
        """Show the progress, and note it if that is due."""
        self._show(progress)
        load_id = self._attempt.load_id
        if load_id is None or clock.monotonic_ns() < self._due_ns:
            return
        every_ns = _AFTER_FAILURE_NS
        with suppress(peewee.PeeweeException, OSError):
            name = progress.file and printable(Path(progress.file).name)
            register = self._attempt.columns["register"]
            History(self._engine, register).note_progress(
                load_id, json_text(progress._replace(file=name))
            )
            every_ns = _EVERY_NS
        self._due_ns = clock.monotonic_ns() + every_ns


def progress_of(text: str | None) -> Progress | None:
    """Return the progress in a column of the history, None if nothing was noted."""
    return msgspec.json.decode(text, type=Progress) if text else None
