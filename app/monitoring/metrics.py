"""GET /metrics, for Prometheus (D2, D80)."""

from contextlib import suppress
from typing import TYPE_CHECKING

import falcon

from app.config import Config
from app.errors import Problem
from app.monitoring import metrics_files
from app.monitoring.metrics_state import State
from app.serve.http.context import Request
from app.serve.http.metrics import Measures
from app.storage.engine import Engine

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# The classic text format, which every version of Prometheus reads.
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """The counts of all workers of this master, and the state of the installation."""

    def __init__(self, engine: Engine, measures: Measures, config: Config) -> None:
        self._state = State(engine, config)
        self._accounts = config.metrics_accounts
        self._measures = measures

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /metrics. 200; local peers need no key; 403 `forbidden` for most accounts (D80)."""
        caller = req.context.caller
        if caller is not None and caller.account not in self._accounts:
            detail = "The key's account may not read the metrics: see VERIFYD_METRICS_ACCOUNTS."
            raise Problem("forbidden", detail)
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

        fresh = CollectorRegistry()
        fresh.register(self._state)
        # If the disk has no room for its own counts, show those of other workers.
        with suppress(OSError):
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
