"""Where the service listens, and which group can connect."""

import os
import socket
import tempfile

import pytest

from app.config import Config
from app.operations.listening import group_fault, path_fault


def config(bind: str, group: int | None) -> Config:
    """Return settings with a socket and its group."""
    return Config(database_url="sqlite:///x.db", bind=bind, socket_group=group)


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
        assert path_fault(f"unix:{path}") == (
            f"VERIFYD_BIND: {path} exists and is not a socket: remove it, or set another path"
        )
    assert path_fault(f"unix:{tmp_path}/run/socket") == (
        f"VERIFYD_BIND: the directory {tmp_path}/run does not exist: create it first"
    )


def test_a_socket_may_be_left_or_missing(tmp_path):
    """A socket file of a former server, on which nobody listens, is replaced."""
    # NOTE: a socket's path must be short, and pytest's can be long.
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{short}/socket")
        assert path_fault(f"unix:{short}/socket") is None
    assert path_fault(f"unix:{tmp_path}/socket") is None
    assert path_fault("127.0.0.1:8000") is None


def test_an_address_has_no_group():
    """Without a Unix socket the group has no effect."""
    assert group_fault(config("127.0.0.1:8000", 30)) is None
