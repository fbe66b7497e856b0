"""What is left to do after a load: files to remove, and why it failed to note (D57, D69)."""

from contextlib import suppress
from functools import partial
from pathlib import Path

import peewee

from app.errors import OperatorError
from app.registers.baseline import prune
from app.registers.current import is_applied
from app.registers.generations import Generations
from app.registers.history import History
from app.registers.lock import still_alone
from app.registers.reading.rejects import keep_newest
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.registers import Entry


def note_failure(
    engine: Engine, generations: Generations, load_id: int, columns: dict[str, object]
) -> None:
    """Remove what a failed load wrote, unless another has begun; then note that it failed.

    In this order: where the disk is full, the note finds room only afterwards. What the register
    index says is read again: Ctrl-C can come just behind a commit.

    Args:
        columns: of the history's line.
    """
    ignored = (OSError, peewee.PeeweeException, OperatorError)
    with suppress(*ignored), still_alone(engine, generations.name):
        remove_unused(generations, generations.find_current())
    with suppress(*ignored):
        if is_applied(engine, generations, load_id):
            return  # The next load settles it.
        fail = partial(History(engine, generations.name).fail, load_id, columns)
        reserve.written(engine, fail)
        with still_alone(engine, generations.name):
            reserve.written(engine, partial(generations.remove_made, load_id))
    reserve.fill(engine)


def remove_unused(generations: Generations, current: Entry | None) -> None:
    """Remove all generations that nobody needs, and the log of the current one."""
    generations.remove_unused()
    if current is not None:
        generations.store.truncate_log(current.generation)


def forget_old(engine: Engine, data_dir: Path) -> None:
    """Remove old lines of the history, and the rejects of all but the last loads."""
    with suppress(OSError, peewee.PeeweeException):
        prune(engine)
    with suppress(OSError):
        keep_newest(data_dir)
