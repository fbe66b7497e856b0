"""Servers for the tests of real processes, each with its own database."""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import pytest

from app.storage.versions import program_schema
from tests.conftest import World
from tests.postgres import Cluster
from tests.system.binary import built, copy_tree
from tests.system.drop import Drop
from tests.system.processes import ROOT, Service, free_port

Serve = Callable[..., Service]
NEXT_MIGRATION = """
def up(migrator, db):
    db.execute_sql("CREATE TABLE further (id INTEGER PRIMARY KEY)")
    db.execute_sql("UPDATE installation SET schema_version = {schema}, oldest_program = 1")
    {then}
"""


@pytest.fixture(scope="session")
def database_kind() -> str:
    """SQLite; tests of Postgres start servers of their own."""
    return "sqlite"


@contextmanager
def serving(world: World) -> Iterator[Serve]:
    """`start(**settings)` starts a server on the world's database and waits until it is ready.

    The program is warm if no command, listener or other program is given. Requests use alice's
    key. All servers end with the `with`.
    """
    with ExitStack() as running:

        def start(*, wait: bool = True, **options: Any) -> Service:
            all_options: dict[str, Any] = {
                "bind": f"127.0.0.1:{free_port()}",
                "database_url": world.config.database_url,
                "state_dir": world.config.state_dir,
                "workers": 2,
                "is_warm": not options.keys() & {"command", "listener", "root"},
            } | options
            service = running.enter_context(Service(world.directory, **all_options))
            service.key = world.alice_key
            return service.wait_ready() if wait else service

        yield start


@pytest.fixture
def serve(world: World) -> Iterator[Serve]:
    """`serve(**settings)` starts servers that end with the test."""
    with serving(world) as start:
        yield start


@pytest.fixture(scope="module")
def shared_serve(shared_world: World) -> Iterator[Serve]:
    """`shared_serve(**settings)` starts servers that end with the module."""
    with serving(shared_world) as start:
        yield start


@pytest.fixture(scope="module")
def shared_served(shared_serve: Serve) -> Service:
    """A server for the tests of a module that are marked `shared_world`; it limits nobody."""
    return shared_serve(anonymous_limit=1_000_000)


@pytest.fixture
def suite() -> str:
    """The release of Debian that machines have; `parametrize` names others."""
    return "bookworm"


@pytest.fixture
def drop(world: World) -> Drop:
    """An empty drop directory."""
    return Drop(world)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A Postgres server for one test."""
    cluster = Cluster(tmp_path / "postgres.log")
    yield cluster
    with suppress(CalledProcessError):  # The test has stopped the server.
        cluster.stop("immediate")


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Service:
    """A server that is ready; the module's shared one if the test is marked `shared_world`."""
    if request.node.get_closest_marker("shared_world"):
        shared: Service = request.getfixturevalue("shared_served")
        return shared
    serve: Serve = request.getfixturevalue("serve")
    return serve()


@contextmanager
def short_directory() -> Iterator[Path]:
    """Make a directory with a path short enough for Unix sockets; remove it at the end."""
    path = Path(tempfile.mkdtemp(prefix="vfd-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def socket_directory() -> Iterator[Path]:
    """A directory whose path is short enough for Unix sockets."""
    with short_directory() as path:
        yield path


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The binary of this tree."""
    return built(copy_tree(tmp_path_factory.mktemp("binary") / "tree"))


@pytest.fixture
def listener(socket_directory: Path) -> Iterator[socket.socket]:
    """A listening socket that no server uses."""
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(socket_directory / "socket"))
        listener.listen(socket.SOMAXCONN)
        yield listener


@pytest.fixture
def make_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """`make_disk(megabytes)` mounts a file system of that size; this needs root."""
    with ExitStack() as mounted:

        def make(megabytes: int) -> Path:
            path = tmp_path / "disk"
            path.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(path)]
            if (
                not shutil.which("mount")
                or subprocess.run(mount, check=False, capture_output=True).returncode
            ):
                pytest.skip("only root, with the right to mount, can make a small disk")
            mounted.callback(subprocess.run, ["umount", "--lazy", str(path)], check=True)
            return path

        yield make


@pytest.fixture
def little_disk(make_disk: Callable[[int], Path]) -> Path:
    """A file system of 3 MB."""
    return make_disk(3)


@pytest.fixture
def next_program(tmp_path):
    """`next_program(then)` copies the program and adds a migration."""

    def make(then: str = "") -> dict[str, object]:
        shutil.copytree(ROOT / "app", tmp_path / "next" / "app")
        schema = program_schema() + 1
        script = NEXT_MIGRATION.format(schema=schema, then=then)
        scripts = tmp_path / "next" / "app" / "storage" / "migrations" / "main"
        (scripts / f"{schema:04}_further.py").write_text(script)
        return {"root": tmp_path / "next"}

    return make
