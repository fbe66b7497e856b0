"""Classifies the errors of both drivers."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import apsw
import peewee

from app.errors import OperatorError

_FOREIGN_KEY_VIOLATION = "23503"  # the SQLSTATE of Postgres
_FORBIDDEN = "42501"
# The two undocumented names of Peewee that we need. A new release may rename them: then the first
# fails in every command and test.


def driver_errors_translated() -> AbstractContextManager[None]:
    """Return a context in which errors of the driver become errors of Peewee.

    Peewee itself translates only errors in the first step of a statement. Fetching rows can fail,
    too.
    """
    wrapper: AbstractContextManager[None] = peewee.__exception_wrapper__  # type: ignore[attr-defined]
    return wrapper


def connection_state(database: peewee.Database) -> Any:
    """Return what Peewee keeps of this thread's connection.

    `reset()` forgets the connection without closing it, `set_connection()` uses it again.
    """
    return database._state  # type: ignore[attr-defined]


def _of_driver(error: BaseException) -> BaseException:
    """Return the error of the driver that an error of Peewee is about, else the error itself."""
    # NOTE: Peewee wraps some errors more than once: those of connecting, and those of a statement
    # that runs while another one is written to.
    while isinstance(error, peewee.PeeweeException) and hasattr(error, "orig"):
        error = error.orig
    return error


def message_of(error: BaseException) -> str:
    """Return the message of an error, for a log or the operator.

    SEC: of a Postgres error this is only the primary message, which names tables and columns.
    Its detail and context can quote the values of a row or a query.
    """
    diagnosis = getattr(_of_driver(error), "diag", None)
    return (diagnosis and diagnosis.message_primary) or str(error)


@contextmanager
def failures_named(name: str) -> Iterator[None]:
    """Raise OperatorError that names the database, such as `source`, if it cannot be used."""
    try:
        yield
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        raise OperatorError(f"the {name} cannot be used: {message_of(error)}") from error


def result_code(error: BaseException) -> int | None:
    """Return SQLite's primary result code for an error of Peewee; None if it has none."""
    error = _of_driver(error)
    return getattr(error, "result", None) if isinstance(error, apsw.Error) else None


def is_busy(error: Exception) -> bool:
    """Tell whether SQLite's lock was held by others for longer than a statement waits."""
    return result_code(error) == apsw.SQLITE_BUSY


def is_out_of_space(error: Exception) -> bool:
    """Tell whether a full disk can be the reason: no room in the database or for its `-shm`.

    Always False on Postgres, whose server has its own disk.
    """
    return result_code(error) in (apsw.SQLITE_FULL, apsw.SQLITE_IOERR)


def sqlstate(error: Exception) -> str:
    """Return the SQLSTATE of Postgres for an error of Peewee; empty if it has none."""
    return getattr(_of_driver(error), "sqlstate", None) or ""


def is_forbidden(error: Exception) -> bool:
    """Tell whether the role of Postgres lacks a permission."""
    return sqlstate(error) == _FORBIDDEN


def is_reference_lost(error: BaseException) -> bool:
    """Tell whether a row could not be written because a row that it refers to is gone."""
    error = _of_driver(error)
    is_sqlite = getattr(error, "extendedresult", None) == apsw.SQLITE_CONSTRAINT_FOREIGNKEY
    return is_sqlite or getattr(error, "sqlstate", None) == _FOREIGN_KEY_VIOLATION


def is_outcome_unknown(error: Exception) -> bool:
    """Tell whether a commit that raised this error may have taken effect all the same.

    The connection to a server was lost before it had answered.
    """
    return result_code(error) is None and not sqlstate(error)
