"""Cleans up after a load: notes why it failed, removes what nobody needs (D57, D69)."""

from contextlib import suppress
from functools import partial
from pathlib import Path

import peewee

from app.errors import OperatorError
from app.registers.generations import Generations
from app.registers.history import History, prune_history
from app.registers.lock import still_locked
from app.registers.reading.rejects import keep_newest
from app.registers.recovery import is_applied
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.registers import Entry


def note_failure(
    engine: Engine, generations: Generations, load_id: int, columns: dict[str, object]
) -> None:
    """Remove what a failed load wrote, then note in the history that it failed.

    Nothing is removed if another load of the register has begun, and nothing is noted if the rows
    were committed after all: the next load records that.

    Args:
        columns: the columns of the history line, `reason` among them.
    """
    ignored = (OSError, peewee.PeeweeException, OperatorError)
    # Peewee leaves a transaction open if Ctrl-C interrupts its commit. Its changes to the register
    # index are visible here, but end with the process, so nothing may be removed because of them.
    with suppress(*ignored):
        engine.rollback()
    # The removal comes first: on a full disk it makes room for the note. The entry is read again,
    # because Ctrl-C can arrive just after the commit.
    with suppress(*ignored), still_locked(engine, generations.name):
        remove_unused(generations, generations.find_current())
    with suppress(*ignored):
        if is_applied(engine, generations, load_id):
            return
        fail = partial(History(engine, generations.name).fail, load_id, columns)
        reserve.with_reserve(engine, fail)
        with still_locked(engine, generations.name):
            reserve.with_reserve(engine, partial(generations.remove_made_by, load_id))
    reserve.fill(engine)


def remove_unused(generations: Generations, current: Entry | None) -> None:
    """Remove all generations that nobody needs, and empty the log of the current one."""
    generations.remove_unused()
    if current is not None:
        generations.store.truncate_log(current.generation)


def prune_records(engine: Engine, data_dir: Path) -> None:
    """Remove old history lines and old rejects files."""
    with suppress(OSError, peewee.PeeweeException):
        prune_history(engine)
    with suppress(OSError):
        keep_newest(data_dir)
