"""Per-request metrics, which `app.monitoring.metrics` reports.

SEC: labels are route templates, statuses and plans, of which there are few: never what a
client chose, an account's name or a registration.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from falcon.routing import CompiledRouter

from app import logs
from app.accounts.usage.counts import Counts
from app.serve.http import metrics_files
from app.serve.http.unit import Answered

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Histogram

NO_ROUTE = "(none)"
ANONYMOUS = "(anonymous)"
_LOOK_EVERY_NS = 1_000_000_000
_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


# PERF: the library would ask the kernel three times per request, of about 20 system calls.
_own_process = cache(os.getpid)
os.register_at_fork(after_in_child=_own_process.cache_clear)


class Measures:
    """The counters and the histogram of one process; `renew` begins to count.

    Args:
        routes: the path templates, each of which is reported from the start.
    """

    registry: "CollectorRegistry"

    def __init__(self, routes: Iterable[str]) -> None:
        self._routes = tuple(routes)
        self.is_kept = False

    def renew(self) -> None:
        """Begin to count, in files of this process. Raises OSError if they cannot be created."""
        # NOTE: imported here, because the library reads its environment when it is imported,
        # and app.server sets that only when it starts.
        from prometheus_client import (  # noqa: PLC0415
            CollectorRegistry,
            disable_created_metrics,
            values,
        )

        self.is_kept = False
        metrics_files.reserve()
        # Otherwise the library would still count in the files that it opened first.
        values.close_all_multiprocess_files()
        kind = values.get_value_class()
        values.ValueClass = (
            kind if kind is values.MutexValue else values.MultiProcessValue(_own_process)
        )
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self._create_measures()
        for route in self._routes:
            self.seconds(route, 200)
        self.is_kept = True

    def _create_measures(self) -> None:
        """Create all measures in the registry."""
        import prometheus_client as library  # noqa: PLC0415 - as in `renew`

        seconds = library.Histogram(
            "verifyd_request_seconds",
            "Requests and how long they took, by route and status.",
            ["route", "status"],
            buckets=_BUCKETS_SECONDS,
            registry=self.registry,
        )
        counter = partial(library.Counter, registry=self.registry)
        limited = counter(
            "verifyd_limited_requests",
            "Requests that were charged, by plan, and whether they were admitted.",
            ["plan", "outcome"],
        )
        self.authentication_failures = counter(
            "verifyd_authentication_failures", "Requests that needed a valid key and had none."
        )
        self.database_errors = counter(
            "verifyd_database_errors", "Requests that failed because the database did."
        )
        self.dropped_log_lines = counter(
            "verifyd_log_lines_dropped", "Log lines that nobody read in time."
        )
        # PERF: looking up labels costs as much as counting.
        self.seconds = cache(seconds.labels)
        self.limited = cache(limited.labels)

    def renew_if_lost(self) -> None:
        """Start again if the files were removed, or could not be created. Raises OSError."""
        if not self.is_kept or metrics_files.is_lost():
            self.renew()

    def count(self, answers: Sequence[Answered], now_ns: int) -> None:
        """Count answers whose requests end now, but those of a sandbox (D182). Raises OSError."""
        seconds: dict[tuple[str, int], list[float]] = {}
        charged: dict[tuple[str, str], int] = {}
        for context, _, _, route, status in answers:
            share, caller, refusal = context.share, context.caller, context.refusal
            if context.has_database_error:
                self.database_errors.inc()
            if caller is not None and caller.is_sandbox:
                continue
            passed = (now_ns - context.started_ns) / 1e9
            seconds.setdefault((route or NO_ROUTE, status), []).append(passed)
            if share is not None and share.was_charged:
                plan = caller.plan if caller else ANONYMOUS
                kind = plan, "admitted" if share.outcome.admitted else "refused"
                charged[kind] = charged.get(kind, 0) + 1
            if refusal is not None and refusal.code == "unauthorized":
                self.authentication_failures.inc()
        for labels, amounts in seconds.items():
            _observe_all(self.seconds(*labels), amounts)
        for names, number in charged.items():
            self.limited(*names).inc(number)
        dropped = logs.take_dropped()
        if dropped:
            self.dropped_log_lines.inc(dropped)


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
        """Count answers whose requests end now, even if their metrics cannot be kept."""
        for context, method, path, route, status in answers:
            caller = context.caller
            if caller is not None and not caller.is_sandbox:
                template = route or self._template_of(path)
                self._usage.add(caller, template, method, status, context.vehicles)
        # A full disk or a removed directory raises OSError.
        with suppress(OSError):
            if now_ns - self._looked_at_ns > _LOOK_EVERY_NS:
                self._look(now_ns)
            if self._measures.is_kept:
                self._measures.count(answers, now_ns)

    def _look(self, now_ns: int) -> None:
        """Do what is due once a second."""
        self._looked_at_ns = now_ns
        self._usage.look_at_clock()
        self._measures.renew_if_lost()

    def _template_of(self, path: str) -> str:
        """Return the template that a path fits; empty if it fits none."""
        found = self._router.find(path)
        return found[3] or "" if found else ""


def _observe_all(histogram: "Histogram", amounts: Sequence[float]) -> None:
    """Count amounts. PERF: each of these additions takes 1 us, so those of a unit are gathered."""
    histogram._sum.inc(sum(amounts))
    counts: dict[int, int] = {}
    for amount in amounts:
        place = bisect_left(_BUCKETS_SECONDS, amount)
        counts[place] = counts.get(place, 0) + 1
    for place, number in counts.items():
        histogram._buckets[place].inc(number)
