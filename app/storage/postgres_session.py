"""Begins a session of Postgres: sets its limits of time, behind a pooler as well (D45).

Settings are made after connecting, not sent as libpq's `options`: a pooler refuses these, or drops
them without a word.
"""

import json
import random
import re
import select
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from app import clock
from app.errors import OperatorError

ANSWER_SECONDS = 10
"""How long the first statement of a connection waits: a pooler answers it only once it has a free
connection to the server."""
ON_PRIMARY = "/*NO LOAD BALANCE*/ "
"""What statements begin with. pgpool would send reads to a standby, whose data may be old; by
default it sends what begins with a comment to the primary."""
_OLDEST_VERSION = 14
_SET = (
    "SELECT pg_backend_pid(), CASE WHEN $1 IN ('', pg_backend_pid()::text) THEN "
    "(SELECT coalesce(json_object_agg(name, set_config(name, value, false)), '{}') "
    "FROM json_each_text($2::json) AS wanted(name, value) "
    # Older servers do not know all of them.
    "WHERE current_setting(name, true) IS NOT NULL) END"
)
_ASKED_TIMES = 10
_NOT_KEPT = (
    "the pooler in front of Postgres does not keep sessions, so two loads could write at once and "
    "limits of time would not hold: set pool_mode = session for this database, or name the server "
    "itself in the URL"
)
_keeping: set[str] = set()
"""The URLs that lead to a pooler which keeps sessions. A forked process knows them as well."""


def forget_pooler(database_url: str) -> None:
    """Let the next session look again how a pooler works: somebody may have changed its mode."""
    _keeping.discard(database_url)


def begin_session(
    connection: Any, database_url: str, settings: Mapping[str, str], connect: Callable[[], Any]
) -> dict[str, str]:
    """Make the settings of a new connection; those that the URL's `options` name have its values.

    Args:
        connection: of psycopg, outside of a transaction.
        connect: returns another connection. It is needed behind a pooler, once in a process.

    Returns what was set, as the server writes it. Raises OperatorError if the server is too old, or
    if a pooler does not keep sessions: then nothing was set. Raises psycopg.OperationalError after
    ANSWER_SECONDS without an answer.
    """
    version = connection.info.server_version // 10_000
    if version < _OLDEST_VERSION:
        raise OperatorError(f"the server is Postgres {version}: verifyd needs 14 or newer")
    given = named_options(connection.info.options)
    is_pooler_known = database_url in _keeping
    if not is_pooler_known:
        ours = {name: value for name, value in settings.items() if name not in given}
        # A pooler tells a number of its own.
        own_pid = str(connection.info.backend_pid)
        _, held = _first(connection, _SET, own_pid, json.dumps(ours))
        if held is not None:
            return dict(json.loads(held))
        # SEC: nothing is set before, since other clients of the pooler may use this backend next.
        with closing(connect()) as other:
            _require_kept(connection, other)
        _keeping.add(database_url)
    # The pooler may have dropped the URL's `options`.
    _, held = _first(connection, _SET, "", json.dumps({**settings, **given}))
    return dict(json.loads(held or "{}"))


def named_options(options: str) -> dict[str, str]:
    """Return the settings that libpq's `options` name, split as the server splits them."""
    words = iter(re.sub(r"\\(.)", r"\1", each) for each in re.findall(r"(?:\\.|[^\\\s])+", options))
    named = {}
    for word in words:
        switch = word + next(words, "") if word == "-c" else word
        found = re.fullmatch("(?:-c|--)([^=]+)=(.*)", switch)
        if found:
            named[found[1].replace("-", "_").lower()] = found[2]
    return named


def _require_kept(one: Any, other: Any) -> None:
    """Raise OperatorError unless each of two connections always has the same backend of its own."""
    pids: tuple[set[str | None], set[str | None]] = set(), set()
    # At random: in step with a pooler that gives backends out alternately, or with another client
    # that looks at the same time, each connection could seem to have its own.
    for number in random.sample((0, 1) * _ASKED_TIMES, 2 * _ASKED_TIMES):
        pids[number].update(_first((one, other)[number], f"{ON_PRIMARY}SELECT pg_backend_pid()"))
    if pids[0] & pids[1] or len(pids[0] | pids[1]) != 2:
        raise OperatorError(_NOT_KEPT)


def _first(connection: Any, sql: str, *values: str) -> list[str | None]:
    """Run a statement with a limit of time, and return the texts of its only row.

    It is not prepared: a pooler that does not keep sessions could run it elsewhere.
    """
    from psycopg import OperationalError, errors, pq  # noqa: PLC0415 - an extra

    pgconn = connection.pgconn
    pgconn.send_query_params(sql.encode(), [value.encode() for value in values])
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    deadline_ns = clock.monotonic_ns() + ANSWER_SECONDS * 1_000_000_000
    while pgconn.flush() or pgconn.is_busy():
        remaining_ms = (deadline_ns - clock.monotonic_ns()) // 1_000_000
        if remaining_ms <= 0 or not poll.poll(remaining_ms):
            raise OperationalError(
                f"no answer within {ANSWER_SECONDS} s: the server hangs, or the pooler in front of "
                "it has no free connection; raise its pool size"
            )
        pgconn.consume_input()
    result = pgconn.get_result()
    while pgconn.get_result():
        pass
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise errors.error_from_result(result)
    found = [result.get_value(0, column) for column in range(result.nfields)]
    return [None if text is None else text.decode() for text in found]
