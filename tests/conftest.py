"""The common fixtures: a fresh database, two accounts, and a client that checks answers.

Everything is real: a SQLite file or a Postgres database, the WSGI application, register files that
are loaded as an operator loads them. Each answer is checked against the OpenAPI document.
"""

import gc
import logging
import os
import secrets
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis
import msgspec
import pytest
from webtest import TestApp, TestResponse

from app.accounts.administration import create_account, create_key, set_plan
from app.config import Config
from app.main import create_app
from app.registers.load import load
from app.registers.reading.rejects import RejectLimit
from app.registers.request import LoadRequest, LoadResult
from app.serve.limits.file import FILE_NAME
from app.serve.limits.store import start
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.postgres_session import ON_PRIMARY
from app.storage.sqlite import VERSION, SqliteEngine
from app.storage.versions import database_id, set_tells_unknown, tells_unknown
from tests.contract.answers import require_documented
from tests.postgres import connect, database_url, server_url
from tests.stores import PostgresTemplate, SqliteStore, SqliteTemplate, Store, Template

STORAGE = pytest.mark.storage
"""For tests of what is stored and how: `make test` runs them on Postgres, too."""
ON_SQLITE = pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
ON_POSTGRES = pytest.mark.parametrize(
    "database_kind", [pytest.param("postgres", marks=STORAGE)], indirect=True
)
"""For tests of what exists on one engine only."""
SHARED = pytest.mark.shared_world
"""For tests that change nothing: those of a module use the same installation and application."""


def engine_independent(test: Any) -> Any:
    """Mark tests of refusals that do not depend on the database, which run on SQLite only.

    One of each kind per operation runs on Postgres too, in tests/contract/test_both_databases.py.
    """
    return ON_SQLITE(SHARED(test))


# `make test` tries the same few examples each time, `make test-system` many others.
hypothesis.settings.register_profile(
    "quick", max_examples=50, deadline=None, derandomize=True, database=None
)
hypothesis.settings.register_profile(
    "thorough", max_examples=500, deadline=None, database=None, print_blob=True
)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
hypothesis.settings.load_profile(_PROFILE)


def _close_log_files() -> None:
    """Close pytest's log file in a forked process.

    The process of a load closes descriptors that it does not know. Its database could get the one
    of the file, and log lines would be written into the database.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.FileHandler):
            handler.close()


os.register_at_fork(after_in_child=_close_log_files)

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"


def expected_samples() -> dict[str, Any]:
    """Return what the sample files give: the day, the files, and the answers about the plates."""
    document: dict[str, Any] = msgspec.json.decode((SAMPLES / "expected.json").read_bytes())
    amended = msgspec.json.decode((SAMPLES / "expected-days.json").read_bytes())["plates"]
    plates = [plate | amended.get(plate["registration"], {}) for plate in document["plates"]]
    return document | {"plates": plates}


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """Let no test leave the environment changed: which tests follow in this process is chance."""
    before = dict(os.environ)
    yield
    changed = set(before.items()).symmetric_difference(os.environ.items())
    assert {name for name, _ in changed} <= {"PYTEST_CURRENT_TEST"}


class World:
    """An installation: its settings, its database, and two accounts with a key each."""

    def __init__(self, directory: Path, store: Store, keys: Sequence[str]) -> None:
        self.directory = directory
        self.store = store
        self.config = self.configured()
        self._engines: list[Engine] = []
        self.engine = self._opened()
        self.limits = self.config.state_dir / FILE_NAME
        start(self.limits, database_id(self.engine))
        self.alice_key, self.bob_key = keys

    @property
    def database(self) -> Path:
        """The main database's file; only on SQLite."""
        assert isinstance(self.store, SqliteStore)
        return self.store.path

    def configured(self, **settings: Any) -> Config:
        """Return the settings with some changed."""
        settings.setdefault("state_dir", self.directory / "state")
        settings.setdefault("data_dir", self.directory)
        settings.setdefault("access_log", False)
        return Config(database_url=self.store.url, **settings)

    @property
    def app_engine(self) -> Engine:
        """The engine of the latest application."""
        return self._engines[-1]

    def close(self) -> None:
        """Close everything that is open."""
        for engine in self._engines:
            close_quietly(engine)
        # The file is large, and applications that are not collected yet have it open.
        if self.limits.exists():
            os.truncate(self.limits, 0)
            self.limits.unlink()

    def _opened(self) -> Engine:
        engine = open_engine(self.config.database_url, is_serving=True)
        self._engines.append(engine)
        return engine

    def key_of(self, account: str, plan: str = "standard", **options: Any) -> str:
        """Create an account and return a key for it."""
        create_account(self.engine, account, plan)
        return create_key(self.engine, account, **options)[1].text

    def client(self, key: str | None, **settings: Any) -> "Client":
        """Return a client with its own application, this key and these settings."""
        return Client(create_app(self.configured(**settings), self._opened()), key)

    def load(
        self, rows: Sequence[Mapping[str, object]], *, register: str | None = None
    ) -> LoadResult:
        """Load native rows as NDJSON, as `verifyd import` would."""
        path = self.directory / "rows.ndjson"
        path.write_bytes(msgspec.json.Encoder().encode_lines(rows))
        return self.load_files(path, register=register)

    def load_files(self, *paths: Path, **options: Any) -> LoadResult:
        """Load files; any number of rejects is allowed."""
        options.setdefault("max_rejects", RejectLimit.parse("100%"))
        request = LoadRequest(files=[str(path) for path in paths], **options)
        return load(self.engine, self.config.data_dir, request, lambda _: None)


class SharedWorld(World):
    """An installation for many tests: clients have no limit, and rows are loaded once."""

    def __init__(self, directory: Path, store: Store, keys: Sequence[str]) -> None:
        super().__init__(directory, store, keys)
        self._clients: dict[str, Client] = {}
        self._loads: dict[str, LoadResult] = {}
        set_plan(
            self.engine,
            "standard",
            {
                "requests": 1_000_000_000,
                "window_seconds": 60,
                "bulk_max": 1_000,
                "domains_max": 1_000,
            },
        )

    def client(self, key: str | None, **settings: Any) -> "Client":
        """Return the client with this key and these settings, the same one each time."""
        settings.setdefault("anonymous_limit", 1_000_000)
        wanted = repr((key, sorted(settings.items())))
        if wanted not in self._clients:
            self._clients[wanted] = super().client(key, **settings)
        return self._clients[wanted]

    def load(
        self, rows: Sequence[Mapping[str, object]], *, register: str | None = None
    ) -> LoadResult:
        """Load native rows unless another test did."""
        wanted = repr((rows, register))
        if wanted not in self._loads:
            self._loads[wanted] = super().load(rows, register=register)
        return self._loads[wanted]


class Client:
    """An HTTP client with a key; never raises for a status, and checks every answer."""

    def __init__(self, app: Any, key: str | None) -> None:
        self.application = app
        self._app = TestApp(app, lint=True)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | str = b"",
        headers: Mapping[str, str] | None = None,
        environ: Mapping[str, Any] | None = None,
    ) -> TestResponse:
        """Send any request; `headers` are added to those of the key."""
        body = body.encode() if isinstance(body, str) else body
        response = self._app.request(
            path,
            method=method,
            body=body,
            headers={**self.headers, **(headers or {})},
            environ={"REMOTE_ADDR": "192.0.2.1", **(environ or {})},
            expect_errors=True,
        )
        require_documented(method, path, response)
        return response

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.request("GET", path, **options)

    def post(self, path: str, document: object, **options: Any) -> TestResponse:
        """Send a document as JSON."""
        headers = {"Content-Type": "application/json", **options.pop("headers", {})}
        body = document if isinstance(document, bytes) else msgspec.json.encode(document)
        return self.request("POST", path, body=body, headers=headers, **options)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> str:
    """The URL of a Postgres server on which databases can be created."""
    own = tmp_path_factory.getbasetemp()
    return server_url(own if worker_id == "master" else own.parent)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """SQLite files with two accounts and no other data."""
    return SqliteTemplate(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[Template]:
    """A Postgres database with two accounts and no other data."""
    template = PostgresTemplate(postgres_server)
    yield template
    template.close()


@pytest.fixture
def empty_postgres(postgres_server: str) -> Iterator[str]:
    """The URL of an empty Postgres database."""
    name = f"verifyd_empty_{secrets.token_hex(8)}"
    with connect(postgres_server) as operator:
        operator.execute(f"CREATE DATABASE {name}")
        yield database_url(postgres_server, name)
        operator.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def shared_postgres_template(postgres_server: str) -> Iterator[Template]:
    """A second template, for the world that the tests of a module share."""
    template = PostgresTemplate(postgres_server)
    yield template
    template.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database_kind(request: pytest.FixtureRequest) -> str:
    """The kind of database; each test with a world runs on both, see `STORAGE`."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def template(request: pytest.FixtureRequest, database_kind: str) -> Template:
    """The template for stores of the kind."""
    template: Template = request.getfixturevalue(f"{database_kind}_template")
    return template


@pytest.fixture(scope="module")
def shared_world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database_kind: str
) -> Iterator[World]:
    """An installation shared by the tests of a module that are marked `shared_world`."""
    name = "sqlite_template" if database_kind == "sqlite" else "shared_postgres_template"
    template: Template = request.getfixturevalue(name)
    directory = tmp_path_factory.mktemp("shared")
    store = template.store(directory)
    world = SharedWorld(directory, store, template.keys)
    yield world
    world.close()
    template.take_back(store)


@pytest.fixture
def world(request: pytest.FixtureRequest, database_kind: str) -> Iterator[World]:
    """A fresh installation, or the module's shared one if the test is marked `shared_world`."""
    if request.node.get_closest_marker("shared_world"):
        world: World = request.getfixturevalue("shared_world")
        request.node.user_properties.append(("database", world.store.name))
        yield world
        return
    directory: Path = request.getfixturevalue("tmp_path")
    template: Template = request.getfixturevalue("template")
    store = template.store(directory)
    request.node.user_properties.append(("database", store.name))
    world = World(directory, store, template.keys)
    yield world
    world.close()
    template.take_back(store)


@pytest.fixture
def telling(world: World) -> Iterator[World]:
    """The installation, whose answers tell what is not known (D198)."""
    told = tells_unknown(world.engine)
    set_tells_unknown(world.engine, True)
    yield world
    set_tells_unknown(world.engine, told)


_LONG_SECONDS_MAX = 3600
"""The limit of a test of `make test-system`, which may first build a binary or a Debian."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave Postgres to `make test-system`, except in tests of storage, and give it more time."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        is_on_postgres = callspec and callspec.params.get("database_kind") == "postgres"
        if is_on_postgres and not item.get_closest_marker("storage"):
            item.add_marker("system_long")
        if item.get_closest_marker("system_long") or _PROFILE == "thorough":
            item.add_marker(pytest.mark.timeout(_LONG_SECONDS_MAX))


class TimedOut(BaseException):
    """A property test took too long.

    hypothesis would take pytest's own exception for a failed example, and try it again, without an
    alarm.
    """


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, Any, Any]:
    """Let the alarm of a test that takes too long end a property test, too."""
    is_set = yield
    fail = signal.getsignal(signal.SIGALRM)
    assert callable(fail)

    def stop(number: int, frame: FrameType | None) -> None:
        try:
            fail(number, frame)
        except pytest.fail.Exception as error:
            if hypothesis.currently_in_test_context():
                raise TimedOut(error.msg) from None
            raise

    signal.signal(signal.SIGALRM, stop)
    return is_set


def pytest_collection() -> None:
    """Collect no garbage while tests are collected."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage again, but look at nothing that stays until the end.

    PERF: there are a million objects of tests; every fork would copy them.
    """
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many of the API's tests ran on which database."""
    ran = Counter(
        dict(report.user_properties).get("database")
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call" and report.nodeid.startswith("tests/api/")
    )
    counts = [f"{count:,} on {name}" for name, count in sorted(ran.items(), key=str) if name]
    if counts:
        terminalreporter.write_line(f"API tests: {', '.join(counts)}")


@pytest.fixture
def alice(world: World) -> Client:
    """A client with the key of the account alice, on the plan `standard`."""
    return world.client(world.alice_key)


@pytest.fixture
def bob(world: World) -> Client:
    """A client with a key of another account."""
    return world.client(world.bob_key)


@pytest.fixture
def stranger(world: World) -> Client:
    """A client without a key."""
    return world.client(None)


@pytest.fixture
def statements() -> Callable[[], Any]:
    """`with statements() as seen:` collects the SQL that any engine runs meanwhile.

    The question whether a SQLite file has changed is left out, and the comment before a statement
    that keeps it on the primary.
    """
    return _collected


@contextmanager
def _collected() -> Iterator[list[str]]:
    seen: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            sql = record.msg[0] if isinstance(record.msg, tuple) else str(record.msg)
            seen.append(sql.removeprefix(ON_PRIMARY))

    # The hot path on SQLite does not pass through Peewee.
    rows = SqliteEngine.rows

    def collecting(engine: SqliteEngine, sql: str, params: Sequence[object]) -> Any:
        if sql != VERSION:
            seen.append(sql)
        return rows(engine, sql, params)

    logger, handler = logging.getLogger("peewee"), Collector()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    SqliteEngine.rows = collecting  # type: ignore[assignment, method-assign]
    try:
        yield seen
    finally:
        SqliteEngine.rows = rows  # type: ignore[method-assign]
        logger.removeHandler(handler)
        logger.setLevel(level)
