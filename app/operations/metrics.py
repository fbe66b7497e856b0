"""GET /metrics: what Prometheus reads (D2, D80)."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import falcon
import peewee

from app.catalogue import KINDS
from app.database import Engine, recover
from app.errors import Problem
from app.http.metrics import Measures
from app.operations import metrics_files
from app.operations.freshness import Freshness, freshness
from app.operations.writing import write_fault

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

# The classic text format, which every version of Prometheus reads.
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """Counts of all workers of this master, and how fresh the data is.

    Args:
        stale_after: the setting, in seconds by register (D51).
        accounts: names of the accounts whose keys may read them from another machine (D80).
    """

    def __init__(
        self,
        engine: Engine,
        measures: Measures,
        stale_after: Mapping[str, int],
        accounts: Collection[str],
    ) -> None:
        self._registers = Registers(engine, stale_after)
        self._measures = measures
        self._accounts = accounts

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /metrics. 200; local peers need no key; 403 `forbidden` for most accounts (D80)."""
        caller = req.context.caller
        if caller is not None and caller.account not in self._accounts:
            detail = "The key's account may not read the metrics: see VERIFYD_METRICS_ACCOUNTS."
            raise Problem("forbidden", detail)
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

        fresh = CollectorRegistry()
        fresh.register(self._registers)
        with suppress(OSError):  # This worker finds no room for its own: others have counted, too.
            self._measures.renew_if_lost()
        try:
            with metrics_files.reading():
                counted = generate_latest(_counted(self._measures))
        except (OSError, *metrics_files.DAMAGED):
            raise Problem("service_unavailable", "The metrics cannot be read.") from None
        resp.data = counted + generate_latest(fresh)
        resp.content_type = _CONTENT_TYPE

    on_head = on_get


def _counted(measures: Measures) -> "CollectorRegistry":
    directory = metrics_files.directory()
    if directory is None:
        return measures.registry
    from prometheus_client import CollectorRegistry  # noqa: PLC0415
    from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415

    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(directory))
    return registry


class Registers:
    """How old what the registers say is, asked of the database when it is read."""

    def __init__(self, engine: Engine, stale_after: Mapping[str, int]) -> None:
        self._engine = engine
        self._stale_after = stale_after

    def collect(self) -> Iterator["Metric"]:
        """Return times and rows of each register; without the database, only that."""
        from prometheus_client.metrics_core import GaugeMetricFamily  # noqa: PLC0415

        registers: list[Freshness] = []
        try:
            registers = freshness(self._engine, self._stale_after)
            is_writable = write_fault(self._engine) is None
            is_up = True
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            recover(self._engine, error)
            is_up = is_writable = False
        yield GaugeMetricFamily(
            "verifyd_database_up", "Whether the database answers.", value=int(is_up)
        )
        yield GaugeMetricFamily(
            "verifyd_database_writable",
            "Whether domains can be created: the database takes writes, and its disk has room.",
            value=int(is_writable),
        )
        loaded = GaugeMetricFamily(
            "verifyd_register_loaded_timestamp_seconds",
            "When the last load of a register ended, in Unix seconds.",
            labels=["register"],
        )
        stale = GaugeMetricFamily(
            "verifyd_register_stale",
            "Whether that is longer ago than VERIFYD_STALE_AFTER allows.",
            labels=["register"],
        )
        rows = GaugeMetricFamily(
            "verifyd_register_rows", "Rows that a register holds.", labels=["register", "kind"]
        )
        for each in registers:
            name = each.register.name
            loaded.add_metric([name], each.loaded_at)
            if each.limit_seconds is not None:
                stale.add_metric([name], int(each.is_stale))
            for kind in KINDS:
                rows.add_metric([name, kind], getattr(each.register, kind))
        yield from (loaded, stale, rows)
