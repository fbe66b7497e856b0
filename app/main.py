"""Wiring: the only module that knows every part of the application."""

from collections.abc import Callable, Sequence
from functools import partial

import falcon
from falcon.routing import CompiledRouter

from app.accounts.authentication import Authenticator
from app.accounts.usage.counts import CONSOLE, Counts
from app.accounts.usage.store import UsageWriter
from app.audit.owner import claimed
from app.audit.record import Record
from app.audit.trail import Trail
from app.config import Config
from app.documentation.resources import (
    DocumentationAsset,
    DocumentationMarkdown,
    DocumentationPage,
    ErrorsPage,
    OpenApiDocument,
    OperationPage,
    StartPage,
    TryPage,
    send_lost_page,
)
from app.domains.repository import Domains
from app.domains.resources import DomainCollection, DomainItem
from app.logs import LineWriter
from app.monitoring.health import Health, Readiness
from app.monitoring.metrics import MetricsPage
from app.registers.load_times import KnownLoadTimes
from app.routes import ENDPOINTS, IMAGINED_PATHS, OPERATIONS, SUGGESTED_PATHS
from app.serve import listening
from app.serve.account import OwnAccount, OwnUsage
from app.serve.http import problems
from app.serve.http.access_log import AccessLog
from app.serve.http.authentication import Authentication
from app.serve.http.bodies import BodyIntake
from app.serve.http.context import Request
from app.serve.http.envelope import Envelope
from app.serve.http.limits import Limits
from app.serve.http.metrics import Measures, Metrics
from app.serve.http.paths import Methods
from app.serve.http.unit import Unit
from app.serve.limits.file import FILE_NAME
from app.serve.limits.store import LimitStore, identity_of
from app.storage.engine import Engine, open_engine
from app.storage.versions import database_id
from app.vehicles.audited import LookUps, Recorder
from app.vehicles.reader import VehicleReader, readers_for_watches
from app.vehicles.records import Records
from app.vehicles.resources import BulkCompliance, BulkInsurance, Compliance, Insurance
from app.vehicles.sandbox import SandboxRecords, load_times
from app.watches.feed import Feed
from app.watches.resources import BulkWatches, EventList, WatchCollection, WatchItem
from app.watches.watching import Watching


class Application(falcon.App[Request, falcon.Response]):
    """The WSGI application of one process."""

    measures: Measures
    """Counts requests, and writes the counts once the server has started it."""
    usage: UsageWriter
    """Writes what the application counts, once the server has started it."""
    unit: Unit[Record]
    """Lets a worker answer requests together."""


def create_resources(
    config: Config,
    engine: Engine,
    authenticator: Authenticator,
    limits: LimitStore,
    measures: Measures,
    unit: Unit[Record],
) -> tuple[object, ...]:
    """Return one resource of each type that `ENDPOINTS` names."""
    domains = Domains(engine)
    reader = VehicleReader(Records(engine, config), config, KnownLoadTimes(engine).of_state)
    sandbox = VehicleReader(SandboxRecords(config.timezone), config, load_times)
    look_ups = LookUps(reader, sandbox, unit)
    watching = Watching(engine, *readers_for_watches(engine, config), unit)
    return (
        DomainCollection(domains),
        DomainItem(domains),
        Insurance(look_ups),
        BulkInsurance(look_ups),
        Compliance(look_ups),
        BulkCompliance(look_ups),
        WatchCollection(watching),
        WatchItem(watching),
        BulkWatches(watching),
        EventList(Feed(engine)),
        OwnAccount(engine, domains.count_domains, watching.watches.count),
        OwnUsage(engine, config.timezone),
        Health(),
        Readiness(engine, authenticator, limits, config),
        OpenApiDocument(config.trusted_proxies),
        StartPage(),
        DocumentationPage(config.trusted_proxies, engine, str(config.timezone)),
        OperationPage(config.trusted_proxies),
        DocumentationMarkdown(config.trusted_proxies, engine, str(config.timezone)),
        ErrorsPage(),
        TryPage(),
        DocumentationAsset(config.trusted_proxies),
        MetricsPage(engine, measures, config),
    )


def create_app(config: Config | None = None, engine: Engine | None = None) -> Application:
    """Return the WSGI application.

    The first request opens the database, so that each worker has connections of its own.

    Args:
        config: the settings [read from the environment].
        engine: the database [the one that the settings name].

    Raises ConfigError if a setting is wrong, and OperatorError if the database's URL is.
    """
    config = config or Config.from_env()
    engine = engine or open_engine(config.database_url, is_serving=True)
    authenticator = Authenticator(engine)
    limits = open_limits(config, engine)
    measures = Measures(endpoint.path for endpoint in ENDPOINTS)
    trail = open_trail(config, engine)
    counts = Counts({**OPERATIONS, ("/console/look-up", "POST"): CONSOLE})
    router = CompiledRouter()
    notes = [AccessLog(LineWriter(1).write_lines).note] if config.access_log else []
    notes.append(Metrics(measures, counts, router).note)
    record = None if trail is None else Recorder(trail).record
    unit = Unit(record, notes, [engine, limits])
    resources = create_resources(config, engine, authenticator, limits, measures, unit)
    outermost: list[object] = [unit, Envelope(config.trusted_proxies), BodyIntake()]
    app = _application_type(config, engine, limits, trail, outermost)(
        request_type=Request,
        router=router,
        middleware=[
            *outermost,
            Authentication(
                authenticator,
                config.trusted_proxies,
                {endpoint.path: endpoint.areas for endpoint in ENDPOINTS},
            ),
            # The account must be known, and the path must not be checked yet (D5).
            Limits(limits, config),
            Methods(SUGGESTED_PATHS, IMAGINED_PATHS),
        ],
    )
    app.unit, app.measures = unit, measures
    app.usage = UsageWriter(counts, engine, config.timezone, config.data_dir)
    problems.install(app, engine, SUGGESTED_PATHS, IMAGINED_PATHS, send_lost_page)
    by_type = {type(resource): resource for resource in resources}
    for endpoint in ENDPOINTS:
        app.add_route(endpoint.path, by_type[endpoint.resource])
    return app


def _application_type(
    config: Config,
    engine: Engine,
    limits: LimitStore,
    trail: Trail | None,
    outermost: Sequence[object],
) -> Callable[..., Application]:
    """Return the factory of the application, which hands requests over to the console if it is on.

    PERF: only with the console its code is imported, so that nothing of the API gets slower.
    """
    if not config.console:
        return Application
    from app.console.application import BehindConsole, create_console  # noqa: PLC0415

    class ApplicationBehindConsole(BehindConsole, Application):
        pass

    console = create_console(config, engine, limits, trail, outermost)
    return partial(ApplicationBehindConsole, console, listening.console_address(config))


def open_limits(config: Config, engine: Engine) -> LimitStore:
    """Return the buckets of this installation. The first request opens their file."""
    path = config.state_dir / FILE_NAME
    return LimitStore(path, lambda: identity_of(path, lambda: database_id(engine)))


def open_trail(config: Config, engine: Engine) -> Trail | None:
    """Return the audit trail of this host; None if it is off. The first record opens it."""
    if not config.audit:
        return None
    directory = config.audit_dir
    return Trail(directory, lambda: claimed(directory, lambda: database_id(engine)))
