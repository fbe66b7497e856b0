"""GET /metrics: what Prometheus reads (D2)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import falcon
import peewee

from app.catalogue import KINDS, Register
from app.database import Engine, drop_connection
from app.errors import Problem
from app.http.metrics import Measures
from app.operations import metrics_files

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

# The classic text format, which every version of Prometheus reads.
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """Counts of all workers of this master, and how fresh the data is.

    Args:
        measures: None if they cannot be kept.
    """

    def __init__(self, engine: Engine, measures: Measures | None) -> None:
        self._engine = engine
        self._measures = measures

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """GET /metrics. 200; local callers need no key, and nobody is charged (D2)."""
        if self._measures is None:
            raise Problem("service_unavailable", "The metrics cannot be kept.")
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

        fresh = CollectorRegistry()
        fresh.register(Freshness(self._engine))
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


class Freshness:
    """How old what the registers say is, asked of the database when it is read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator["Metric"]:
        """Return a time and the rows of each register; without the database, only that."""
        from prometheus_client.metrics_core import GaugeMetricFamily  # noqa: PLC0415

        registers: list[Register] = []
        try:
            registers = list(Register.select().order_by(Register.name).execute(self._engine))
            is_up = True
        except (peewee.DatabaseError, peewee.InterfaceError):
            drop_connection(self._engine)
            is_up = False
        yield GaugeMetricFamily(
            "verifyd_database_up", "Whether the database answers.", value=int(is_up)
        )
        loaded = GaugeMetricFamily(
            "verifyd_register_loaded_timestamp_seconds",
            "When the last load of a register ended, in Unix seconds.",
            labels=["register"],
        )
        rows = GaugeMetricFamily(
            "verifyd_register_rows", "Rows that a register holds.", labels=["register", "kind"]
        )
        for register in registers:
            if register.loaded_at is not None:
                loaded.add_metric([register.name], register.loaded_at)
            for kind in KINDS:
                rows.add_metric([register.name, kind], getattr(register, kind))
        yield from (loaded, rows)
