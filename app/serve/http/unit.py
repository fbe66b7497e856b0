"""Requests that are answered together are recorded, logged and counted together (D170)."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import falcon

from app.serve.http.context import FAILURE, Environ, Request, RequestContext

_log = logging.getLogger("verifyd.server")


class Answered(NamedTuple):
    """A request and what it was answered."""

    context: RequestContext
    method: str
    """As the client sent it, which can be any text."""
    path: str
    route: str | None
    """The template of the path; None if there is nothing at it, or if it was refused before."""
    status: int


class Holder(Protocol):
    """Checks something before each use; while it is held, only before the first."""

    def hold(self) -> None:
        """Check once from now on."""

    def release(self) -> None:
        """Check before each use again."""


T = TypeVar("T")
Record = Callable[[Sequence[tuple[Request, T]]], None]
"""Keeps what is recorded of requests, of all or of none. Raises the exception that answers them."""
Note = Callable[[Sequence[Answered], int], None]
"""Takes answers that are about to be sent, and the time [`perf_counter_ns`]."""


class Unit(Generic[T]):
    """What the requests that a worker answers together have in common.

    The life of a unit: `begin`, the application is called for each request, `record`, for each
    request that cannot be recorded the application is called again, `end`, the answers are sent.
    All requests of a unit were received before it begins.

    Outside a unit, each request is recorded while it is answered, and noted when it is.

    Args:
        record: keeps what must be recorded before an answer is sent; None if nothing must.
        notes: what is to be told about each answer.
        holders: what need be checked only once in a unit.
    """

    def __init__(
        self, record: Record[T] | None, notes: Sequence[Note] = (), holders: Sequence[Holder] = ()
    ) -> None:
        self._record = record
        self._notes = notes
        self._holders = holders
        self._is_open = False
        self._answers: dict[RequestContext, Answered] = {}
        self._pending: list[tuple[Request, T]] = []

    def begin(self) -> None:
        """Begin to answer requests that were all received before."""
        self._is_open = True
        for each in self._holders:
            each.hold()

    @property
    def is_recording(self) -> bool:
        return self._record is not None

    def add_record(self, req: Request, record: T) -> None:
        """Record something before the answer is sent.

        Outside a unit, raises the exception that answers the request if that is impossible.
        """
        assert self._record is not None  # noqa: S101 - the caller has asked
        if self._is_open:
            self._pending.append((req, record))
        else:
            self._record([(req, record)])

    def record_at_once(self, req: Request, *records: T) -> None:
        """Record something before a transaction commits it, also within a unit.

        Raises the exception that answers the request if that is impossible.
        """
        assert self._record is not None  # noqa: S101 - the caller has asked
        self._record([(req, each) for each in records])

    def record(self) -> list[Environ]:
        """Record what this unit must; return the requests for which that is impossible.

        These must be answered again, which refuses them.
        """
        pending, self._pending = self._pending, []
        if self._record is None or not pending:
            return []
        try:
            self._record(pending)
        except Exception as error:  # The application answers it.
            for req, _ in pending:
                req.env[FAILURE] = error
                req.context.vehicles = 0
            return [req.env for req, _ in pending]
        return []

    def end(self) -> None:
        """Note the answers of this unit, which are sent next."""
        self._is_open = False
        for each in self._holders:
            each.release()
        answers, self._answers = [*self._answers.values()], {}
        self._note(answers)

    def process_response(
        self, req: Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Take note of an answer; of a request that is answered again, of its last one."""
        context, status = req.context, falcon.http_status_to_code(resp.status)
        # A request that is answered again is refused before its path is routed.
        former = self._answers.get(context)
        route = former.route if former else req.uri_template
        answered = Answered(context, req.method, req.path, route, status)
        if self._is_open:
            self._answers[context] = answered
        else:
            self._note([answered])

    def _note(self, answers: Sequence[Answered]) -> None:
        now_ns = time.perf_counter_ns()
        for note in self._notes:
            try:
                note(answers, now_ns)
            except Exception as error:
                text = "answers are not noted: unexpected %s"
                _log.error(text, type(error).__name__, exc_info=error)
