"""The first page, which tells whether all is well."""

import falcon

from app.accounts.usage.models import CLASSES
from app.accounts.usage.writer import INTERVAL_SECONDS
from app.alerts.freshness import freshness
from app.console import overview_facts
from app.console.context import ConsoleRequest, Services
from app.console.usage_charts import chart_of_hours
from app.storage.tables import Kind
from app.version import line


class Overview:
    """Readiness, registers, answers, loads, disks and the version."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console."""
        engine, config, limits, pages, _ = self._services
        ages = freshness(engine, config.stale_after)
        health = overview_facts.health(engine, config, limits, ages)
        days, series = overview_facts.loads_by_day(engine, config.timezone)
        pages.send(
            req,
            resp,
            "overview.html",
            health=health,
            registers=ages,
            answers=chart_of_hours(engine, config.timezone),
            classes=CLASSES,
            seconds=INTERVAL_SECONDS,
            kinds=list(Kind),
            loads=overview_facts.latest_loads(engine),
            disks=overview_facts.disks(engine, config),
            days=days,
            series=series,
            program=line(),
            has_documentation=not config.console_bind,
        )

    on_head = on_get
