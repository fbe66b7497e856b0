"""The access log: a line for each answer."""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache

import falcon

from app import clock
from app.serve.http.unit import Answered

_METHODS = frozenset(falcon.HTTP_METHODS)
_KINDS_CACHED_MAX = 1024


class AccessLog:
    """Writes a line for each answer.

    Args:
        write_lines: takes lines with their line ends.
    """

    def __init__(self, write_lines: Callable[[Sequence[bytes]], object]) -> None:
        self._write_lines = write_lines

    def note(self, answers: Sequence[Answered], now_ns: int) -> None:
        """Log answers whose requests end now."""
        time = _second(clock.now())
        self._write_lines([_line(time, each, now_ns) for each in answers])


def _line(time: str, answered: Answered, now_ns: int) -> bytes:
    context = answered.context
    kind = _kind(
        context.caller.key_id if context.caller else context.refused_key,
        answered.method,
        answered.route,
        answered.status,
    )
    duration_ms = round((now_ns - context.started_ns) / 1e6, 3)
    # A request id has only hexadecimal digits and hyphens.
    line = (
        f'{{"time":"{time}","event":"request","request_id":"{context.request_id}",{kind},'
        f'"duration_ms":{duration_ms}}}\n'
    )
    return line.encode("ascii")


# PERF: what is the same in many lines is encoded once: a line takes 1.5 us less.
@lru_cache(_KINDS_CACHED_MAX)
def _kind(key_id: str | None, method: str, route: str | None, status: int) -> str:
    """Return the members of a line that say what kind of answer it was."""
    # SEC: the route's template, never the path: paths hold registrations. A client can send one as
    # the method, too.
    members = {
        "key": key_id or None,  # People in the console have none.
        "method": method if method in _METHODS else "(other)",
        "route": route,
        "status": status,
    }
    return json.dumps(members, separators=(",", ":"))[1:-1]


# PERF: a time takes 2 us, 3 % of a look-up, and is that of many lines.
_second = lru_cache(1)(clock.iso_utc)
