"""Files and sockets of a running service are private, whatever its umask."""

import os
import signal
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from tests.system.processes import GUNICORN, SERVE, Service, run_command, send, until

COMMANDS = pytest.mark.parametrize("command", [SERVE, GUNICORN], ids=["serve", "gunicorn"])
UMASKS = pytest.mark.parametrize(
    "umask", [pytest.param("022", marks=pytest.mark.system_long), "000"]
)
ANOTHER_GROUP = 4242 if os.geteuid() == 0 else os.getegid()
FOR_OTHERS = stat.S_IRWXO


def with_umask(umask: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """Return words that run a command with a umask."""
    return ("sh", "-c", f'umask {umask} && exec "$@"', "sh", *command)


@COMMANDS
@UMASKS
def test_the_socket_is_never_open_to_everybody(serve, socket_directory, command, umask):
    """Its mode is 0660 from the first moment, and its group is the service's."""
    path = socket_directory / "socket"
    service: Service = serve(
        wait=False, bind=f"unix:{path}", workers=1, command=with_umask(umask, command)
    )
    until(path.exists, "the socket to be made")
    modes = set()
    while not service._is_ready():
        modes.add(path.lstat().st_mode)
    modes.add(path.lstat().st_mode)
    assert {oct(stat.S_IMODE(mode)) for mode in modes} == {"0o660"}
    assert path.lstat().st_gid == os.getegid()


@COMMANDS
def test_the_socket_is_given_to_a_group(serve, socket_directory, command):
    """`VERIFYD_SOCKET_GROUP` can connect; workers keep their groups."""
    path = socket_directory / "socket"
    service = serve(bind=f"unix:{path}", workers=1, socket_group=ANOTHER_GROUP, command=command)
    found = path.lstat()
    assert (oct(stat.S_IMODE(found.st_mode)), found.st_gid) == ("0o660", ANOTHER_GROUP)
    (worker,) = service.workers()
    assert f"Gid:\t{os.getegid()}\t" in Path(f"/proc/{worker}/status").read_text()


def test_a_socket_that_is_handed_over_stays_as_it_is(serve, listener):
    """Systemd decides its mode and group."""
    path = listener.getsockname()
    os.chmod(path, 0o640)
    before = os.stat(path)
    serve(bind=f"unix:{path}", listener=listener, workers=1, socket_group=ANOTHER_GROUP)
    after = os.stat(path)
    assert (after.st_mode, after.st_gid) == (before.st_mode, before.st_gid)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may give a socket to any group")
def test_a_group_without_the_user_stops_the_start(serve, world, socket_directory):
    """The start fails before anything listens; `verifyd check` has the same fault."""
    bind = f"unix:{socket_directory}/socket"
    service = serve(wait=False, bind=bind, socket_group=0)
    assert service.wait() == 1
    assert "VERIFYD_SOCKET_GROUP: user" in service.output("stderr")
    settings = {"database_url": world.config.database_url, "bind": bind, "socket_group": 0}
    assert "VERIFYD_SOCKET_GROUP: user" in run_command("check", **settings).stderr


def test_a_group_that_is_not_there_stops_the_start(serve, world):
    """`verifyd check` has the same fault."""
    settings = {"database_url": world.config.database_url, "socket_group": "no-such-group"}
    assert "VERIFYD_SOCKET_GROUP: must be a group" in run_command("check", **settings).stderr
    service = serve(wait=False, socket_group="no-such-group")
    assert service.wait() == 1
    assert "VERIFYD_SOCKET_GROUP: must be a group" in service.output("stderr")


@COMMANDS
@UMASKS
def test_files_and_directories_are_nobody_elses(serve, world, command, umask):
    """The state directory, those above it, and files created later are private."""
    above = world.directory / "above"
    service = serve(state_dir=above / "it" / "state", command=with_umask(umask, command))
    assert service.post("/api/domains", {"name": "example.com"}).status == 201
    assert send(service.bind, "GET", "/api/domains").status == 401
    killed = service.workers()[0]
    os.kill(killed, signal.SIGKILL)
    counts = above / "it" / "state" / "metrics" / str(service.process.pid)
    until((counts / "0.counts").exists, "the counts of the worker to be kept")
    service.wait_ready()
    made = [above, *above.rglob("*")]
    assert len(made) > 8
    modes = {}
    for path in made:
        with suppress(FileNotFoundError):  # A worker has renamed its new file.
            modes[str(path)] = oct(stat.S_IMODE(path.lstat().st_mode))
    assert [each for each in modes.items() if int(each[1], 8) & FOR_OTHERS] == []
