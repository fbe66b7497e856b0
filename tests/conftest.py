"""The cast and the stage of the tests: a fresh database, two accounts, a client that checks.

Everything is real: a SQLite file, the WSGI application, register files that are loaded as an
operator loads them. Each answer the client gets is held against the OpenAPI document.
"""

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from webtest import TestApp, TestResponse

from app.accounts.administration import create_account, create_key
from app.config import Config
from app.database import Engine, close_quietly, open_engine
from app.limits.file import FILE_NAME
from app.limits.store import start
from app.main import create_app
from app.registers.load import LoadRequest, LoadResult, load
from app.registers.rejects import RejectLimit
from app.schema import database_id, migrate
from tests.contract.answers import require_documented

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"


class Template(NamedTuple):
    """A migrated database with the accounts alice and bob, to be copied, and a key of each."""

    database: Path
    alice_key: str
    bob_key: str


class World:
    """An installation: its settings, its database, two accounts with a key each."""

    def __init__(self, directory: Path, template: Template) -> None:
        self.directory = directory
        self.database = directory / "verifyd.db"
        shutil.copy(template.database, self.database)
        self.config = self.configured()
        self.engine: Engine = open_engine(self.config.database_url)
        self.limits = self.config.state_dir / FILE_NAME
        start(self.limits, database_id(self.engine))
        self.alice_key = template.alice_key
        self.bob_key = template.bob_key

    def configured(self, **settings: Any) -> Config:
        """Return the settings, some of them different."""
        settings.setdefault("state_dir", self.directory / "state")
        settings.setdefault("access_log", False)
        return Config(database_url=f"sqlite:///{self.database}", **settings)

    def key_of(self, account: str, plan: str = "standard", **options: Any) -> str:
        """Make an account and return a key for it."""
        create_account(self.engine, account, plan)
        return create_key(self.engine, account, **options)[1].text

    def client(self, key: str | None, **settings: Any) -> "Client":
        """Return a client of an application of its own, with this key and these settings."""
        return Client(create_app(self.configured(**settings)), key)

    def load(
        self, rows: Sequence[Mapping[str, object]], *, register: str | None = None
    ) -> LoadResult:
        """Load native rows as NDJSON, as `verifyd import` would."""
        path = self.directory / "rows.ndjson"
        path.write_bytes(msgspec.json.Encoder().encode_lines(rows))
        return self.load_files(path, register=register)

    def load_files(self, *paths: Path, **options: Any) -> LoadResult:
        """Load files, whatever part of them is rejected."""
        options.setdefault("max_rejects", RejectLimit.parse("100%"))
        request = LoadRequest(files=[str(path) for path in paths], **options)
        return load(self.engine, self.config.state_dir, request, lambda _: None)


class Client:
    """An HTTP client with a key; never raises for a status, checks every answer's contract."""

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
        """Send anything; `headers` come on top of the key's."""
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
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A database without data but for two accounts, made once and copied for each test."""
    path = tmp_path_factory.mktemp("template") / "verifyd.db"
    engine = open_engine(f"sqlite:///{path}", create=True)
    migrate(engine)
    keys = []
    for account in ("alice", "bob"):
        create_account(engine, account)
        keys.append(create_key(engine, account)[1].text)
    close_quietly(engine)
    return Template(path, *keys)


@pytest.fixture
def world(tmp_path: Path, template: Template) -> Iterator[World]:
    """A fresh installation."""
    world = World(tmp_path, template)
    yield world
    close_quietly(world.engine)
    world.limits.unlink(missing_ok=True)  # It is large.


@pytest.fixture
def alice(world: World) -> Client:
    """A client with the key of the account alice, on the plan `standard`."""
    return world.client(world.alice_key)


@pytest.fixture
def bob(world: World) -> Client:
    """A client with the key of another account."""
    return world.client(world.bob_key)


@pytest.fixture
def stranger(world: World) -> Client:
    """A client without a key."""
    return world.client(None)


@pytest.fixture
def statements() -> Callable[[], Any]:
    """`with statements() as seen:` collects the SQL that was run meanwhile, by any engine."""
    return _collected


@contextmanager
def _collected() -> Iterator[list[str]]:
    seen: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.msg[0] if isinstance(record.msg, tuple) else str(record.msg))

    logger, handler = logging.getLogger("peewee"), Collector()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield seen
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
