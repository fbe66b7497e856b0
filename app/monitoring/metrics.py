"""GET /metrics, for Prometheus."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Any

import falcon
import msgspec
import peewee
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from app.alerts.certificate import validity_of
from app.alerts.disk import free_bytes_by_directory, write_fault
from app.alerts.loads import UNRECOGNISED, Freshness, LoadFacts, ended_at, freshness, load_facts
from app.alerts.nightly import LastRuns, last_runs
from app.alerts.sweeps import count_watches, held_back
from app.audit.state import audit_state, summary_of
from app.config import Config
from app.errors import OperatorError, Problem
from app.serve.http.context import Request
from app.serve.http.metrics import Measures
from app.serve.http.metrics_files import SECONDS_BUCKETS, RequestCounts
from app.storage.engine import Engine
from app.storage.registers import find_unreadable
from app.storage.tables import Kind
from app.version import VERSION, revision

_BOUNDS = [*map(str, SECONDS_BUCKETS), "+Inf"]


class _Requests:
    """What the workers have counted."""

    def __init__(self, counts: RequestCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of requests."""
        counts = self._counts
        seconds = HistogramMetricFamily(
            "verifyd_request_seconds",
            "Requests and how long they took, by route and status.",
            labels=["route", "status"],
        )
        for (route, status), (sum_seconds, *numbers) in sorted(counts.seconds.items()):
            buckets = list(zip(_BOUNDS, accumulate(numbers), strict=True))
            seconds.add_metric([route, str(status)], buckets, sum_seconds)
        limited = CounterMetricFamily(
            "verifyd_limited_requests",
            "Requests that were charged, by plan, and whether they were admitted.",
            labels=["plan", "outcome"],
        )
        for names, number in sorted(counts.limited.items()):
            limited.add_metric(names, number)
        yield from (seconds, limited)
        yield CounterMetricFamily(
            "verifyd_authentication_failures",
            "Requests that needed a valid key and had none.",
            counts.authentication_failures,
        )
        yield CounterMetricFamily(
            "verifyd_database_errors",
            "Requests that failed because the database did.",
            counts.database_errors,
        )
        yield CounterMetricFamily(
            "verifyd_log_lines_dropped",
            "Log lines that nobody read in time.",
            counts.dropped_log_lines,
        )


class InstallationState:
    """The state of the installation, which each scrape reads again."""

    def __init__(self, engine: Engine, config: Config) -> None:
        self._engine = engine
        self._config = config

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; if the database does not answer, only those that do not need it."""
        try:
            ages = freshness(self._engine, self._config)
            facts = load_facts(self._engine)
            runs = last_runs(self._engine)
            is_writable = write_fault(self._engine) is None
            is_readable = find_unreadable(self._engine) is None
            audit = audit_state(self._engine, self._config)
            watches, held = count_watches(self._engine), held_back(self._engine)
            is_up = True
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            self._engine.recover(error)
            is_up = is_writable = False
        yield _gauge("verifyd_database_up", "Whether the database answers.", is_up)
        yield _gauge(
            "verifyd_database_writable",
            "Whether domains can be created: the database takes writes, and its disk has room.",
            is_writable,
        )
        yield from self._host()
        if is_up:
            yield _gauge(
                "verifyd_registers_readable",
                "Whether look-ups can read each register, and find its own data.",
                is_readable,
            )
            yield from _registers(ages)
            yield from _loads(facts, ages)
            yield from _backup(runs)
            yield _gauge("verifyd_watches", "Plates that accounts watch.", watches)
            yield _gauge(
                "verifyd_watches_held",
                "Watches of which changes by a load are held back.",
                sum(each.watches for each in held),
            )
            if runs.swept_at is not None:
                yield _gauge(
                    "verifyd_sweep_last_success_timestamp_seconds",
                    "When the last sweep of the watches that succeeded ended, in Unix seconds.",
                    runs.swept_at,
                )
            if "check" in runs.ended:
                yield _gauge(
                    "verifyd_deep_check_failed",
                    "Whether the last deep check found damage, or did not end.",
                    bool(runs.ended["check"].faults),
                )
            if audit.is_on:
                yield _gauge(
                    "verifyd_audit_writable",
                    "Whether look-ups can be recorded; otherwise they are refused.",
                    not audit.fault,
                )

    def _host(self) -> Iterator[Metric]:
        """Yield the metrics that do not need the database."""
        free = _labelled("verifyd_disk_free_bytes", "Free disk space.", "directory")
        for directory, free_bytes in free_bytes_by_directory(self._engine, self._config).items():
            free.add_metric([directory], free_bytes)
        build = _labelled("verifyd_build_info", "The program: always 1.", "version", "commit")
        made_from = revision()
        build.add_metric([VERSION, made_from.commit if made_from else ""], 1)
        yield from (free, build)
        yield from self._audit()
        validity, path = None, self._config.certificate
        with suppress(OperatorError):
            validity = validity_of(path) if path else None
        if validity is not None:
            yield _gauge(
                "verifyd_certificate_expiry_timestamp_seconds",
                "When the TLS certificate expires, in Unix seconds.",
                validity.expires_at,
            )
            yield _gauge(
                "verifyd_certificate_late_timestamp_seconds",
                "From when on the renewal of the TLS certificate is late, in Unix seconds.",
                validity.late_at,
            )

    def _audit(self) -> Iterator[Metric]:
        yield _gauge("verifyd_audit_enabled", "Whether VERIFYD_AUDIT is on.", self._config.audit)
        summary = summary_of(self._config)
        if summary is None:
            return
        yield _gauge(
            "verifyd_audit_size_bytes",
            "Size of the sealed segments of the audit trail.",
            summary.bytes,
        )
        yield _gauge(
            "verifyd_audit_last_seal_timestamp_seconds",
            "When the audit trail was last sealed, in Unix seconds.",
            summary.sealed_at,
        )


def _registers(ages: list[Freshness]) -> Iterator[Metric]:
    loaded = _labelled(
        "verifyd_register_loaded_timestamp_seconds",
        "When the last load of a register ended, in Unix seconds.",
        "register",
    )
    changed = _labelled(
        "verifyd_register_changed_timestamp_seconds",
        "When a load or a rollback last changed a row of a register, in Unix seconds.",
        "register",
    )
    stale = _labelled(
        "verifyd_register_stale",
        "Whether that is longer ago than VERIFYD_STALE_AFTER allows.",
        "register",
    )
    rows = _labelled("verifyd_register_rows", "Rows that a register holds.", "register", "kind")
    for each in ages:
        name = each.register.name
        loaded.add_metric([name], each.loaded_at)
        changed.add_metric([name], each.changed_at)
        if each.limit_seconds is not None:
            stale.add_metric([name], int(each.is_stale))
        for kind in Kind:
            rows.add_metric([name, kind], getattr(each.register, kind))
    yield from (loaded, changed, stale, rows)


def _loads(facts: list[LoadFacts], ages: list[Freshness]) -> Iterator[Metric]:
    success = _labelled(
        "verifyd_register_last_success_timestamp_seconds",
        "When the last load of a register that succeeded ended, in Unix seconds.",
        "register",
    )
    failure = _labelled(
        "verifyd_register_last_failure_timestamp_seconds",
        "When the last load of a register that failed ended, in Unix seconds.",
        "register",
    )
    rejected = _labelled(
        "verifyd_register_rejected_rows", "Rows that the last load rejected.", "register"
    )
    held = _labelled("verifyd_register_held_loads", "Loads that wait for a decision.", "register")
    # The history is kept for a limited time, and a register can be older.
    succeeded = {each.register.name: each.loaded_at for each in ages}
    succeeded |= {each.register: ended_at(each.last_loaded) for each in facts if each.last_loaded}
    for name, at in sorted(succeeded.items()):
        success.add_metric([name], at)
    for each in facts:
        if each.last_failed is not None and _is_failure_shown(each):
            failure.add_metric([each.register], ended_at(each.last_failed))
        if each.last is not None and each.register != UNRECOGNISED:
            rejected.add_metric([each.register], each.last.rejected)
            held.add_metric([each.register], len(each.held))
    yield from (success, failure, rejected, held)


def _is_failure_shown(facts: LoadFacts) -> bool:
    """Tell whether a failure is shown. A rollback, drop or purge ends it like a success does.

    After a drop no load may follow, so nothing else would end the alert.
    """
    return bool(facts.failed or facts.held) or facts.last is not facts.last_failed


def _backup(runs: LastRuns) -> Iterator[Metric]:
    if runs.backup_at is None:
        return
    yield _gauge(
        "verifyd_backup_last_success_timestamp_seconds",
        "When the last backup that succeeded ended, in Unix seconds.",
        runs.backup_at,
    )
    yield _gauge("verifyd_backup_size_bytes", "Size of that backup.", runs.backup_bytes or 0)


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(name, what, value=int(value))


def _labelled(name: str, what: str, *labels: str) -> Any:
    return GaugeMetricFamily(name, what, labels=labels)


# The classic text format, which every version of Prometheus reads.
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """The counts of all workers of this master, and the state of the installation."""

    def __init__(self, engine: Engine, measures: Measures, config: Config) -> None:
        self._state = InstallationState(engine, config)
        self._accounts = config.metrics_accounts
        self._measures = measures

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /metrics. 200; local peers need no key; 403 `forbidden` for most accounts."""
        caller = req.context.caller
        if caller is not None and caller.account not in self._accounts:
            detail = "The key's account may not read the metrics: see VERIFYD_METRICS_ACCOUNTS."
            raise Problem("forbidden", detail)
        try:
            counts = self._measures.total()
        except (OSError, msgspec.MsgspecError):
            raise Problem("service_unavailable", "The metrics cannot be read.") from None
        registry = CollectorRegistry()
        registry.register(_Requests(counts))
        registry.register(self._state)
        resp.data = generate_latest(registry)
        resp.content_type = _CONTENT_TYPE

    on_head = on_get
