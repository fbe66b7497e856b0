"""Removes a register as a whole: its entry first, then what it stored (D25)."""

from app.catalogue import Register, register_file
from app.database import Engine, SqliteEngine
from app.errors import OperatorError
from app.registers.lock import alone


def drop_register(engine: Engine, name: str) -> None:
    """Remove a register; answers are without it from the next request.

    Raises OperatorError if there is none of that name, or a load of it is running.
    """
    with alone(engine, name):
        found = Register.select().where(Register.name == name).first(engine)
        if found is None:
            raise OperatorError(f"there is no register {name}")
        remove_register(engine, found)


def remove_register(engine: Engine, register: Register) -> None:
    """Remove a register's entry and its tables; needs its lock.

    A reader that has it attached goes on reading the removed file until its next request. No
    generation is used twice, so that it never takes a later register for this one.
    """
    Register.delete().where(Register.name == register.name).execute(engine)
    if isinstance(engine, SqliteEngine):
        file = register_file(engine.path, register.name, register.generation)
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
    else:
        engine.execute_sql(f'DROP SCHEMA IF EXISTS "register_{register.name}" CASCADE')
