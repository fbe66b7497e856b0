"""Takes loads back: the last replace of a register, or a register as a whole (D28).

Both free disk space or put right what is wrong, so both work on a full disk (D57).
"""

import logging

from app import reserve
from app.catalogue import KeptRegister
from app.database import Engine
from app.errors import OperatorError
from app.registers.current import settle
from app.registers.formats import Kind
from app.registers.generations import Generations
from app.registers.history import ROLLBACK, History
from app.registers.lock import alone

_log = logging.getLogger(__name__)


def roll_back(engine: Engine, register: str | None, kind: Kind | None) -> dict[str, object]:
    """Let readers have what a register held before its last load, if that was a replace (D28).

    Args:
        register: None if only one can be rolled back.

    Returns the register, its kind that changes and the rows of it. Raises OperatorError.
    """
    history = History(engine, register or _only_kept(engine))

    def rolled_back() -> tuple[int, Kind]:
        settle(engine, history, 0)
        replaced = history.require_kept(kind)
        with engine.atomic():
            load_id = history.begin(kind=replaced, mode=ROLLBACK, format_name="", files=[])
            history.roll_back(load_id)
        return load_id, replaced

    with alone(engine, history.register):
        load_id, replaced = reserve.written(engine, rolled_back)
    held = getattr(history.generations.find_current(), replaced.value)
    _log.info("load %d, rollback of %s %s: done", load_id, history.register, replaced)
    return {"register": history.register, "kind": replaced.value, "held": held}


def drop_register(engine: Engine, name: str) -> None:
    """Remove a register; answers are without it from the next request.

    Raises OperatorError if there is none of that name, or a load of it is running.
    """
    generations = Generations(engine, name)
    if generations.find_current() is None:
        raise OperatorError(f"there is no register {name}")
    with alone(engine, name):
        reserve.written(engine, generations.remove_all)
    reserve.fill(engine)


def _only_kept(engine: Engine) -> str:
    names = [
        kept.name for kept in KeptRegister.select().order_by(KeptRegister.name).execute(engine)
    ]
    if not names:
        raise OperatorError("no register can be rolled back: none was replaced last")
    if len(names) > 1:
        raise OperatorError(f"which register? --register is one of {', '.join(names)}")
    return str(names[0])
