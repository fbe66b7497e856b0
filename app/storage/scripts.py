"""Runs the migration scripts of the main database and of registers."""

from pathlib import Path

from playhouse.migrations import Runner

from app.storage.engine import Engine

SCRIPTS = Path(__file__).parent / "migrations"


def migrate_main(engine: Engine) -> list[str]:
    """Run the scripts that a main database lacks, and return their names.

    Call it within `Engine.migration`.
    """
    applied: list[str] = _main(engine).up()
    return applied


def migrate_register(engine: Engine, schema: str | None) -> list[str]:
    """Create or migrate the tables of one register, and return the names of the scripts that ran.

    Args:
        engine: the engine of the register.
        schema: the schema of its tables; None for the default schema of the connection.
    """
    with engine.migration():
        applied: list[str] = _register(engine, schema).up()
    return applied


def pending_main(engine: Engine) -> list[str]:
    """Return the names of the scripts that a main database lacks."""
    return _pending(_main(engine))


def pending_register(engine: Engine, schema: str | None) -> list[str]:
    """Return the names of the scripts that a register lacks."""
    return _pending(_register(engine, schema))


def _main(engine: Engine) -> Runner:
    return Runner(engine, str(SCRIPTS / "main"))


def _register(engine: Engine, schema: str | None) -> Runner:
    return Runner(engine, str(SCRIPTS / "register"), schema=schema)


def _pending(runner: Runner) -> list[str]:
    return [script.name for script in runner.status() if script.path and not script.applied]
