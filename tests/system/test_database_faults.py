"""A missing, broken, locked or outdated database is refused, or gives 503 until fixed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.storage.engine import close_quietly
from app.storage.versions import Installation, program_schema
from tests.system.processes import GUNICORN, SERVE, Answer, run_command, send

LOCKED = """
import sys
import apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


def refusal(serve, **options) -> str:
    """Start a server that must refuse to, and return its reason."""
    service = serve(wait=False, **options)
    assert service.wait() == 1
    told = service.output("stderr")
    assert "Traceback" not in told
    return told


def require_unavailable(answer: Answer) -> None:
    """Fail unless an answer is a 503 problem with Retry-After."""
    assert (answer.status, answer.media_type) == (503, "application/problem+json")
    assert answer.json()["code"] in ("database_unavailable", "not_ready")
    assert int(answer.headers["Retry-After"]) >= 1


def every_answer(service) -> list[Answer]:
    """Return the answers to all kinds of requests, each from several workers."""
    return [
        answer
        for _ in range(4)
        for answer in (
            service.get("/api/domains"),
            service.get("/v1/vehicle/AB12CDE/insurance"),
            service.post("/v1/vehicle/bulk-insurance", {"registrations": ["AB12CDE"]}),
            service.post("/api/domains", {"name": "example.com"}),
            send(service.bind, "GET", "/readyz"),
        )
    ]


def set_aside(world) -> Path:
    """Move the database away, with its other files."""
    aside = world.directory / "aside"
    aside.mkdir(exist_ok=True)
    for path in world.directory.glob("verifyd.db*"):
        shutil.move(path, aside)
    return aside


def put_back(world) -> None:
    """Copy the database back: a new file with the same content."""
    for name in (world.directory / "aside").iterdir():
        shutil.copy(name, world.directory)


def test_a_missing_database_is_not_created(serve, world):
    """A mistyped URL must not create an empty service (D27)."""
    path = world.directory / "none.db"
    told = refusal(serve, database_url=f"sqlite:///{path}")
    assert f"database file {path} does not exist; run " in told
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "the database is empty: run "), (b"text\n" * 999, "not a database")],
    ids=["empty", "text"],
)
def test_a_file_that_is_no_database_is_refused(serve, world, content, told):
    """The file stays unchanged, and no database is created."""
    path = world.directory / "other.db"
    path.write_bytes(content)
    assert told in refusal(serve, database_url=f"sqlite:///{path}")
    assert path.read_bytes() == content


@pytest.mark.parametrize("command", [SERVE, GUNICORN], ids=["serve", "gunicorn"])
def test_a_newer_database_is_refused(serve, world, command):
    """The refusal names the program version that it needs (D29)."""
    Installation.update(schema_version=99, oldest_program=98).execute(world.engine)
    close_quietly(world.engine)
    assert "needs a program of schema 98 or newer" in refusal(serve, command=command)


def test_an_older_database_is_migrated_at_the_start(serve, world, next_program):
    """The next program migrates it at the start; then the old one still works (D29)."""
    service = serve(workers=1, **next_program())
    assert service.post("/api/domains", {"name": "example.com"}).status == 201
    messages = [line["message"] for line in service.lines("stderr")]
    schema = program_schema() + 1
    assert f"migrated: {schema:04}_further" in messages
    row = Installation.select().get(world.engine)
    assert (row.schema_version, row.oldest_program) == (schema, 1)
    assert serve(workers=1).get("/api/domains/example.com").status == 200


def test_a_migration_that_fails_changes_nothing(serve, world, next_program):
    """The start fails with a reason, and the old program continues to serve."""
    told = refusal(serve, **next_program("db.execute_sql('SELECT * FROM nowhere')"))
    assert "no such table: nowhere" in told
    assert Installation.select().get(world.engine).schema_version == program_schema()
    assert "further" not in world.engine.get_tables()
    assert serve(workers=1).get("/api/domains").status == 200


def test_a_database_that_is_gone_is_asked_for_by_every_request(serve, world):
    """While it is missing every answer is 503, never 500 and never from the deleted file."""
    service = serve()
    assert service.get("/api/domains").status == 200
    set_aside(world)
    for answer in every_answer(service):
        require_unavailable(answer)
    assert send(service.bind, "GET", "/healthz").status == 200
    assert not world.database.exists()
    put_back(world)
    statuses = [answer.status for answer in every_answer(service)]
    assert statuses[:5] == [200, 404, 200, 201, 200]
    assert statuses[5:] == [200, 404, 200, 409, 200] * 3


def test_writes_after_a_restore_go_to_the_restored_file(serve, world):
    """The service notices the replaced file, and writes an acknowledged domain to it (D27)."""
    service = serve()
    assert service.get("/api/domains").status == 200
    set_aside(world)
    put_back(world)
    assert service.post("/api/domains", {"name": "example.com"}).status == 201
    settings = {"database_url": world.config.database_url}
    assert "example.com" in run_command("domains", "list", "alice", **settings).stdout


def test_a_database_that_became_garbage_is_no_500(serve, world):
    """The answer is 503 until a good file takes its place."""
    service = serve()
    assert service.get("/api/domains").status == 200
    set_aside(world)
    world.database.write_bytes(b"garbage" * 1_000)
    for answer in every_answer(service):
        require_unavailable(answer)
    world.database.unlink()
    put_back(world)
    assert [answer.status for answer in every_answer(service)][:5] == [200, 404, 200, 201, 200]


def test_a_register_that_is_gone_is_no_500(serve, world):
    """Look-ups give 503 while the file is missing, and domains still work."""
    service = serve(workers=1)
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    (register,) = world.directory.glob("*.register_native.*.db")
    aside = register.rename(world.directory / "aside.db")
    require_unavailable(service.get("/v1/vehicle/AB12CDE/insurance"))
    assert service.get("/api/domains").status == 200
    aside.rename(register)
    assert service.get("/v1/vehicle/AB12CDE/insurance").status == 200


@pytest.mark.system_long
def test_a_database_locked_by_another_program_is_waited_for(serve, world):
    """Reads work; a write waits 5 s, gets 503, and succeeds once the lock is gone (D27)."""
    service = serve(workers=1)
    words = [sys.executable, "-c", LOCKED, str(world.database)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as locker:
        assert locker.stdout
        assert locker.stdin
        assert locker.stdout.readline() == b"locked\n"
        assert service.get("/api/domains").status == 200
        assert send(service.bind, "GET", "/readyz").status == 200
        require_unavailable(service.post("/api/domains", {"name": "example.com"}))
        locker.stdin.close()
    assert service.post("/api/domains", {"name": "example.com"}).status == 201


@pytest.fixture
def held_to_rights():
    """The words that run a command as root, but with file permissions enforced."""
    if os.geteuid() != 0:
        return ()
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root needs setpriv to be held to the rights of files")
    dropped = "-dac_override,-dac_read_search"
    return (setpriv, f"--inh-caps={dropped}", f"--bounding-set={dropped}")


@pytest.mark.system_long
def test_a_file_that_may_only_be_read_is_read(serve, world, held_to_rights):
    """Look-ups work, writes give 503, and `check` has the reason."""
    close_quietly(world.engine)
    world.database.chmod(0o440)
    service = serve(workers=1, command=(*held_to_rights, *SERVE))
    assert service.get("/api/domains").status == 200
    require_unavailable(service.post("/api/domains", {"name": "example.com"}))
    settings = {"database_url": world.config.database_url, "state_dir": world.directory}
    ended = run_command("check", before=held_to_rights, **settings)
    assert ended.returncode == 1
    assert f"VERIFYD_DATABASE_URL: {world.database} cannot be written to" in ended.stderr


def test_a_folder_that_may_only_be_read_is_refused(serve, world, held_to_rights, tmp_path):
    """SQLite keeps files next to the database, so start and check fail with a reason."""
    close_quietly(world.engine)
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(world.database, folder)
    folder.chmod(0o550)
    settings = {"database_url": f"sqlite:///{folder / 'verifyd.db'}", "state_dir": tmp_path}
    assert "database" in refusal(serve, command=(*held_to_rights, *SERVE), **settings)
    ended = run_command("check", before=held_to_rights, **settings)
    assert f"{folder} cannot be written to" in ended.stderr
    folder.chmod(0o750)
