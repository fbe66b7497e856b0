"""Per-request metrics, which `app.monitoring.metrics` reports.

SEC: labels are route templates, statuses and plans, of which there are few: never what a
client chose, an account's name or a registration.
"""

import logging
import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec
from falcon.routing import CompiledRouter

from app import logs
from app.accounts.usage.counts import Counts
from app.processes import signals_blocked
from app.serve.http import metrics_files
from app.serve.http.metrics_files import SECONDS_BUCKETS, RequestCounts
from app.serve.http.unit import Answered

NO_ROUTE = "(none)"
ANONYMOUS = "(anonymous)"
_LOOK_EVERY_NS = 1_000_000_000
_WRITE_EVERY_SECONDS = 1
_LAST_SECONDS = 5
_log = logging.getLogger("verifyd.metrics")


class Measures:
    """What this process has counted; a thread of its own writes it into a file.

    Args:
        routes: the path templates, each of which is reported from the start.
    """

    def __init__(self, routes: Iterable[str]) -> None:
        self._counts = RequestCounts()
        for route in routes:
            self._counts.timed(route, 200)
        self._has_changed = threading.Event()
        self._is_stopping = threading.Event()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._fault = ""

    def count(self, answers: Sequence[Answered], now_ns: int) -> None:
        """Count answers whose requests end now, but those of a sandbox (D182)."""
        counts = self._counts
        for context, _, _, route, status in answers:
            share, caller, refusal = context.share, context.caller, context.refusal
            if context.has_database_error:
                counts.database_errors += 1
            if caller is not None and caller.is_sandbox:
                continue
            seconds = (now_ns - context.started_ns) / 1e9
            times = counts.timed(route or NO_ROUTE, status)
            times[0] += seconds
            times[1 + bisect_left(SECONDS_BUCKETS, seconds)] += 1
            if share is not None and share.was_charged:
                plan = caller.plan if caller else ANONYMOUS
                kind = plan, "admitted" if share.outcome.admitted else "refused"
                counts.limited[kind] = counts.limited.get(kind, 0) + 1
            if refusal is not None and refusal.code == "unauthorized":
                counts.authentication_failures += 1
        counts.dropped_log_lines += logs.take_dropped()
        # PERF: to set it takes a lock.
        if not self._has_changed.is_set():
            self._has_changed.set()

    def start(self) -> None:
        """Start the thread, and go on from what an ended worker of the same number left."""
        with suppress(OSError, msgspec.MsgspecError):
            self._counts.add(metrics_files.left())
        self._has_changed.set()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        with signals_blocked():
            self._thread.start()

    def stop(self) -> None:
        """Write the last counts, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._is_stopping.set()
            self._has_changed.set()
            thread.join(_LAST_SECONDS)

    def total(self) -> RequestCounts:
        """Return what all workers have counted; the last second of others can be missing.

        Raises OSError, or msgspec.MsgspecError if a file is damaged.
        """
        self._write()
        return metrics_files.total(self._counts)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            self._has_changed.wait()
            self._has_changed.clear()
            self._write()
            self._is_stopping.wait(_WRITE_EVERY_SECONDS)
        self._write()

    def _write(self) -> None:
        """Write the file. If that fails, it is as it was, so no number in it ever falls."""
        fault = ""
        with self._writing:
            try:
                metrics_files.write(self._counts)
            except OSError as error:
                fault = str(error)
            if fault and fault != self._fault:
                _log.error("counts of requests are not written: %s", fault)
            self._fault = fault


class Metrics:
    """Counts each request when it is answered.

    Args:
        usage: counts the answers to each key.
        router: finds the path template of a request that was refused before its path was routed.
    """

    def __init__(self, measures: Measures, usage: Counts, router: CompiledRouter) -> None:
        self._measures = measures
        self._usage = usage
        self._router = router
        self._looked_at_ns = 0

    def note(self, answers: Sequence[Answered], now_ns: int) -> None:
        """Count answers whose requests end now."""
        # First, or the answer after a quiet night would count for the day before.
        if now_ns - self._looked_at_ns > _LOOK_EVERY_NS:
            self._looked_at_ns = now_ns
            self._usage.look_at_clock()
        for context, method, path, route, status in answers:
            caller = context.caller
            if caller is not None and not caller.is_sandbox:
                template = route or self._template_of(path)
                self._usage.add(caller, template, method, status, context.vehicles)
        self._measures.count(answers, now_ns)

    def _template_of(self, path: str) -> str:
        """Return the template that a path fits; empty if it fits none."""
        found = self._router.find(path)
        return found[3] or "" if found else ""
