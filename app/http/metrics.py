"""What is counted of every request; `app.operations.metrics` tells it (DESIGN 5).

SEC: labels are route templates, statuses and plans, of which there are few: never what a
client chose, an account's name or a registration.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any

import falcon

NO_ROUTE = "(none)"
ANONYMOUS = "(anonymous)"
_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Measures:
    """The counters and the histogram of one process.

    Args:
        routes: the path templates, each of which is told from the first moment.
    """

    def __init__(self, routes: Iterable[str]) -> None:
        # NOTE: imported here, because the library looks at its environment when it is imported,
        # and app.server sets that only when it starts.
        from prometheus_client import (  # noqa: PLC0415
            CollectorRegistry,
            Counter,
            Histogram,
            disable_created_metrics,
        )

        disable_created_metrics()
        self.registry = CollectorRegistry()
        seconds = Histogram(
            "verifyd_request_seconds",
            "Requests and how long they took, by route and status.",
            ["route", "status"],
            buckets=_BUCKETS_SECONDS,
            registry=self.registry,
        )
        limited = Counter(
            "verifyd_limited_requests",
            "Requests that were charged, by plan, and whether they were admitted.",
            ["plan", "outcome"],
            registry=self.registry,
        )
        self.authentication_failures = Counter(
            "verifyd_authentication_failures",
            "Requests that needed a valid key and had none.",
            registry=self.registry,
        )
        self.database_errors = Counter(
            "verifyd_database_errors",
            "Requests that failed because the database did.",
            registry=self.registry,
        )
        # PERF: looking up labels costs as much as counting.
        self.seconds = cache(seconds.labels)
        self.limited = cache(limited.labels)
        for route in routes:
            self.seconds(route, 200)


class Metrics:
    """The outermost middleware: counts each request when it is answered."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Count the request; one that cannot be counted is answered all the same."""
        # NOTE: OSError is what a full disk or a removed directory makes of it.
        with suppress(OSError):
            self._count(req.context, req.uri_template, falcon.http_status_to_code(resp.status))

    def _count(self, context: Any, route: str | None, status: int) -> None:
        measures = self._measures
        seconds = (time.perf_counter_ns() - context.started_ns) / 1e9
        measures.seconds(route or NO_ROUTE, status).observe(seconds)
        share, caller = context.share, context.caller
        if share is not None and share.was_charged:
            plan = caller.plan if caller else ANONYMOUS
            measures.limited(plan, "admitted" if share.outcome.admitted else "refused").inc()
        if context.refusal is not None:
            measures.authentication_failures.inc()
        if context.has_database_error:
            measures.database_errors.inc()
