"""Where the service listens, and which group can connect."""

import errno
import os
import socket
import tempfile
from typing import Any

import pytest

from app.config import Config
from app.errors import OperatorError
from app.monitoring import check
from app.monitoring.check import socket_faults
from app.serve import listening, service_lock
from app.serve.listening import console_fault, console_warning, path_fault
from tests.rows import each_row


def config(bind: str, group: int | None) -> Config:
    """Return settings with a socket and its group."""
    return Config(database_url="sqlite:///x.db", bind=bind, socket_group=group)


def group_fault(config: Config) -> str | None:
    """Return why the main socket cannot be given to its group."""
    return listening.group_fault(config, config.bind)


def with_console(bind: str, console_bind: str, *, console: bool = True) -> Config:
    """Return settings with a console of its own."""
    return Config(
        database_url="sqlite:///x.db", bind=bind, console=console, console_bind=console_bind
    )


@pytest.fixture(autouse=True)
def user(monkeypatch):
    """A user who is in the groups 10 and 20."""
    monkeypatch.setattr(os, "geteuid", lambda: 10)
    monkeypatch.setattr(os, "getegid", lambda: 10)
    monkeypatch.setattr(os, "getgroups", lambda: [20])


@pytest.mark.parametrize("group", [None, 10, 20])
def test_a_user_may_give_the_socket_to_its_groups(group):
    """A user can give the socket to its main and supplementary groups."""
    assert group_fault(config("unix:/run/x", group)) is None


def test_another_group_is_refused():
    """The refusal has the setting's name, the user and the group."""
    told = group_fault(config("unix:/run/x", 30))
    assert told == (
        "VERIFYD_SOCKET_GROUP: user 10 is not in group 30: add the user to it, or set another group"
    )


def test_root_may_give_it_to_any(monkeypatch):
    """Root can give the socket to any group."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert group_fault(config("unix:/run/x", 30)) is None


def test_another_file_than_a_socket_is_refused(tmp_path):
    """Without this check gunicorn fails with a stack, or retries for five seconds."""
    file = tmp_path / "verifyd.db"
    file.touch()
    for path in (file, tmp_path):
        assert path_fault("bind", f"unix:{path}") == (
            f"VERIFYD_BIND: {path} exists and is not a socket: remove it, or set another path"
        )
    assert path_fault("console_bind", f"unix:{tmp_path}/run/socket") == (
        f"VERIFYD_CONSOLE_BIND: the directory {tmp_path}/run does not exist: create it first"
    )


def test_a_directory_that_nobody_may_enter_is_named_with_its_setting(tmp_path, monkeypatch):
    """`verifyd check` goes on to what else is wrong."""

    def refuse(*_args: object, **_options: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "stat", refuse)
    assert path_fault("bind", f"unix:{tmp_path}/run/socket") == (
        f"VERIFYD_BIND: {tmp_path}/run cannot be written to"
    )


def test_a_socket_may_be_left_or_missing(tmp_path):
    """A socket file of a former server, on which nobody listens, is replaced."""
    # NOTE: a socket's path must be short, and pytest's can be long.
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{short}/socket")
        assert path_fault("bind", f"unix:{short}/socket") is None
    assert path_fault("bind", f"unix:{tmp_path}/socket") is None
    assert path_fault("bind", "127.0.0.1:8000") is None


def test_an_address_has_no_group():
    """Without a Unix socket the group has no effect."""
    assert group_fault(config("127.0.0.1:8000", 30)) is None


@pytest.mark.timeout(30)
def test_a_program_that_hangs_uses_its_socket(tmp_path, monkeypatch):
    """The queue of its socket can be full; a start is refused, and does not wait for room."""
    monkeypatch.chdir(tmp_path)  # The path of a socket must be short.
    with socket.socket(socket.AF_UNIX) as hanging, socket.socket(socket.AF_UNIX) as queued:
        hanging.bind("socket")
        hanging.listen(0)
        queued.connect("socket")
        with pytest.raises(OperatorError, match="another program listens at unix:socket;"):
            listening.require_free(config("unix:socket", None))


@each_row(
    ("bind", "console_bind"),
    [
        ("127.0.0.1:8000", "127.0.0.1:8000"),
        ("127.0.0.1:8000", "localhost:8000"),
        ("0.0.0.0:8000", "127.0.0.1:8000"),
        ("127.0.0.1:8000", "[::]:8000"),
        ("0.0.0.0:8000", "[::]:8000"),
        ("[0:0::1]:8000", "[::1]:8000"),
        ("unix:/run/x", "unix:/run/x"),
    ],
)
def test_the_console_needs_an_address_of_its_own(bind, console_bind):
    """Otherwise there would be no listener for the API, or none for the console."""
    told = console_fault(with_console(bind, console_bind), [])
    assert told == (f"VERIFYD_CONSOLE_BIND: the API listens at {console_bind}: set another address")
    assert console_fault(with_console(bind, console_bind, console=False), []) is None


@each_row("spelling", ["./s.sock", "../run/s.sock", "/s.sock", "link.sock", "../other/s.sock"])
def test_the_console_needs_a_path_of_its_own(tmp_path, spelling):
    """However both are written: the second socket would replace the first."""
    run = tmp_path / "run"
    run.mkdir(exist_ok=True)
    for link, target in ((tmp_path / "other", run), (run / "link.sock", run / "s.sock")):
        if not link.is_symlink():
            link.symlink_to(target)
    settings = with_console(f"unix:{run}/s.sock", f"unix:{run}/{spelling}")
    assert "the API listens at" in (console_fault(settings, []) or "")


def test_the_console_may_be_at_any_other_address():
    """Another port, host or path, or none at all."""
    for console_bind in ("127.0.0.1:8001", "127.0.0.2:8000", "unix:/run/x", ""):
        assert console_fault(with_console("127.0.0.1:8000", console_bind), []) is None
    assert console_fault(with_console("unix:/run/x", "unix:/run/y"), []) is None
    # Neither the end of a path nor IPv6 is an IPv4 address of this host.
    for console_bind in ("unix:/run/x:8000", "[::1]:8000"):
        assert console_fault(with_console("0.0.0.0:8000", console_bind), []) is None


def test_systemd_must_pass_a_socket_for_the_api():
    """With the console's socket alone, nobody could reach the API."""
    settings = with_console("127.0.0.1:8000", "unix:/run/x")
    told = console_fault(settings, ["unix:/run/x"])
    assert told
    assert "set another address" in told
    assert console_fault(settings, ["unix:/run/x", "unix:/run/y"]) is None
    assert listening.to_open(settings, ["unix:/run/x", "unix:/run/y"]) == []
    assert listening.to_open(settings, ["unix:/run/y"]) == ["console_bind"]
    assert listening.to_open(settings, []) == ["bind", "console_bind"]


def test_a_port_that_another_program_uses_is_a_warning(tmp_path):
    """It is one only where the service itself does not listen there already."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        told = console_warning(with_console("127.0.0.1:1", bind))
        assert told == f"VERIFYD_CONSOLE_BIND: another program listens at {bind}."
    assert console_warning(with_console("127.0.0.1:1", bind)) is None


def test_an_address_of_another_host_is_a_warning():
    """`serve` would refuse it, and nobody would be answered."""
    told = console_warning(with_console("127.0.0.1:1", "192.0.2.7:8001"))
    assert told
    assert told.startswith("VERIFYD_CONSOLE_BIND: 192.0.2.7:8001 cannot be used: ")


@pytest.mark.parametrize(
    ("console_bind", "is_fault"), [("unix:/run/verifyd.sock", True), ("127.0.0.1:8000", False)]
)
def test_check_knows_where_systemd_lets_the_service_listen(monkeypatch, console_bind, is_fault):
    """The settings of an installed host do not say it."""
    monkeypatch.delenv("VERIFYD_BIND", raising=False)
    noted = ["unix:/run/verifyd.sock", "unix:/run/verifyd-console.sock"]
    monkeypatch.setattr(service_lock, "listeners", lambda _state_dir: noted)
    monkeypatch.setattr(
        check, "_database_findings", lambda _: check.Findings([], [], None, None, [])
    )
    told = check.findings(with_console("127.0.0.1:8000", console_bind)).faults
    assert ("the API listens at" in "".join(told)) == is_fault


@pytest.mark.parametrize("name", ["bind", "console_bind"])
def test_check_refuses_what_the_start_would_refuse(tmp_path, name):
    """`check` names the same fault of a socket's path as `serve`, at both addresses."""
    file = tmp_path / "file"
    file.touch()
    chosen: dict[str, Any] = {name: f"unix:{file}"}
    settings = Config(database_url="sqlite:///x.db", **chosen)
    assert socket_faults(settings) == [path_fault(name, chosen[name])]


def test_a_console_that_is_off_needs_no_address():
    """`check` mentions the address that has no effect."""
    told = console_warning(with_console("127.0.0.1:1", "127.0.0.1:2", console=False))
    assert told == ("VERIFYD_CONSOLE_BIND is set, and the console is off: set VERIFYD_CONSOLE=on.")
    assert console_warning(with_console("127.0.0.1:1", "")) is None


def test_an_unknown_host_is_a_fault():
    """The refusal names the setting and the address."""
    told = console_fault(with_console("127.0.0.1:1", "no.such.invalid:1"), [])
    assert told
    assert told.startswith("VERIFYD_CONSOLE_BIND: no.such.invalid:1 cannot be used: ")
