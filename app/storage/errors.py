"""What the errors of both drivers mean."""

from contextlib import AbstractContextManager

import peewee

# Primary result codes of SQLite.
BUSY, IOERR, FULL, CANTOPEN = 5, 10, 13, 14


def message_of(error: BaseException) -> str:
    """Return what an error says is wrong; of the database's it names files and tables, no value.

    What Postgres adds to it, as detail and context, can quote a row or what was asked for.
    """
    diagnosis = getattr(getattr(error, "orig", None), "diag", None)
    return (diagnosis and diagnosis.message_primary) or str(error)


def result_code(error: BaseException) -> int | None:
    """Return SQLite's primary result code behind one of Peewee's errors; None if it has none."""
    # NOTE: one that was met while connecting is wrapped more than once.
    while isinstance(error, peewee.PeeweeException) and hasattr(error, "orig"):
        error = error.orig
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_busy(error: Exception) -> bool:
    """Tell whether somebody else held SQLite's lock for longer than a statement waits."""
    return result_code(error) == BUSY


def is_out_of_space(error: Exception) -> bool:
    """Tell whether a full disk can be the reason: as such, or of a `-shm` that found no room.

    Never on Postgres, whose disk is the server's.
    """
    return result_code(error) in (FULL, IOERR)


def sqlstate(error: Exception) -> str:
    """Return Postgres' SQLSTATE behind one of Peewee's errors; empty if it has none."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) or ""


def driver_errors_translated() -> AbstractContextManager[None]:
    """Return a context in which the driver's own errors become Peewee's.

    Peewee itself translates those of a statement's first step; later ones can fail as well.
    """
    translated: AbstractContextManager[None] = vars(peewee)["__exception_wrapper__"]
    return translated
