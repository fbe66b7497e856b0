"""`verifyd console`: links that open the console, and the end of its sessions (D132)."""

import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from app.config import Config
from app.jobs.audit_tasks import AuditTask, AuditTaskRequest, AuditTasks
from app.jobs.results import TrailQuestion
from app.people.sessions import (
    TOKEN_CHARACTERS,
    ConsoleLink,
    ConsoleSession,
    create_link,
    list_sessions,
    open_session,
    require_link,
)
from app.settings.roles import Role
from app.storage.engine import close_quietly, open_engine
from tests.conftest import ON_SQLITE

LINK = rf"http://127\.0\.0\.1:8000/console/sign-in/([0-9A-Za-z]{{{TOKEN_CHARACTERS}}})"


@pytest.fixture
def console(cli, monkeypatch):
    """The command line of an installation whose console is on."""
    monkeypatch.setenv("VERIFYD_CONSOLE", "on")
    return cli


@pytest.fixture
def engine(cli):
    """The database of the installation."""
    engine = open_engine(cli.database_url)
    yield engine
    close_quietly(engine)


def test_a_link_is_printed_alone_on_its_line(console, engine):
    """The link comes first, then a sentence; its token is that of a link for ten minutes."""
    ended = console.run("console", "link", "--as", " Ann ", "--role", "operator")
    assert (ended.status, ended.stderr) == (0, "")
    found = re.fullmatch(f"{LINK}\n\n(.*)\n", ended.stdout)
    assert found
    assert found[2] == "this link works once, for 10 minutes, and signs Ann in as operator"
    link = require_link(engine, found[1])
    assert (link.name, link.role) == ("Ann", "operator")


@pytest.mark.parametrize("role", Role)
def test_a_link_as_a_document(console, engine, role):
    """`--json` prints link, name, role and the time when it expires."""
    made = console.json("console", "link", "--as", "ann", "--role", role)
    assert list(made) == ["link", "name", "role", "expires_at"]
    assert (made["name"], made["role"]) == ("ann", role)
    found = re.fullmatch(LINK, made["link"])
    assert found
    assert require_link(engine, found[1]).role == role


@pytest.mark.parametrize(
    ("settings", "url", "beginning"),
    [
        ({}, None, "http://127.0.0.1:8000/console/"),
        ({"bind": "0.0.0.0:80"}, None, "http://127.0.0.1:80/console/"),
        ({"bind": "unix:/run/verifyd.sock"}, None, "https://host.example/console/"),
        ({"console_bind": "127.0.0.1:8001"}, None, "http://127.0.0.1:8001/console/"),
        (
            {"bind": "unix:/run/verifyd.sock", "console_bind": "0.0.0.0:8001"},
            None,
            "http://127.0.0.1:8001/console/",
        ),
        ({"console_bind": "unix:/run/c"}, None, "https://host.example/console/"),
        ({}, "https://verifyd.example.com", "https://verifyd.example.com/console/"),
        ({}, "https://a.example/prefix/", "https://a.example/prefix/console/"),
        ({"console_url": "https://b.example/"}, None, "https://b.example/console/"),
        ({"console_url": "https://b.example"}, "https://a.example", "https://a.example/console/"),
    ],
)
def test_a_link_has_the_address_of_the_service(console, monkeypatch, settings, url, beginning):
    """The setting or `--url` names another than where the service or nginx listens."""
    monkeypatch.setattr("socket.getfqdn", lambda: "host.example")
    for name, value in settings.items():
        monkeypatch.setenv(f"VERIFYD_{name.upper()}", value)
    words = ["--url", url] if url else []
    made = console.json("console", "link", "--as", "ann", "--role", "viewer", *words)
    assert made["link"].startswith(beginning + "sign-in/")


@pytest.mark.parametrize(
    ("names", "host"),
    [
        ("IP:192.0.2.1,DNS:192.0.2.1,DNS:*.example.com,DNS:v.example.com,DNS:w.example.com", "v."),
        (f"DNS:{'a' * 60}.{'b' * 60}.{'c' * 60}.example.com", f"{'a' * 60}.{'b' * 60}.{'c' * 60}."),
        ("DNS:localhost,IP:127.0.0.1", None),
        ("DNS:*.example.com", None),
        ("", None),
    ],
)
def test_a_link_has_a_name_of_the_certificate(console, monkeypatch, tmp_path, names, host):
    """The first one that is no wildcard and no address; without one, the name of the host."""
    certificate = tmp_path / "fullchain.pem"
    words = ["req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=cn.example.com"]
    words += ["-addext", f"subjectAltName={names}"] if names else []
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(certificate)]
    subprocess.run(["openssl", *words, *files], check=True, capture_output=True)
    monkeypatch.setattr("socket.getfqdn", lambda: "host.example")
    monkeypatch.setenv("VERIFYD_CERTIFICATE", str(certificate))
    make = partial(console.json, "console", "link", "--as", "ann", "--role", "viewer")
    assert make()["link"].startswith("http://127.0.0.1:8000/")
    monkeypatch.setenv("VERIFYD_BIND", "unix:/run/verifyd.sock")
    expected = f"https://{f'{host}example.com' if host else 'host.example'}/console/"
    assert make()["link"].startswith(expected)
    certificate.write_text("nonsense")
    assert make()["link"].startswith("https://host.example/console/")


@pytest.mark.parametrize(
    "words",
    [
        ["--as", "ann"],
        ["--role", "viewer"],
        ["--as", "ann", "--role", "admin"],
        ["--as", "ann", "--role", "viewer", "--url", "verifyd.example.com"],
        ["--as", "ann", "--role", "viewer", "--url", "https://a.example/?x=1"],
    ],
)
def test_wrong_arguments_are_refused(console, engine, words):
    """A person and a role are needed, and an address is one of http or https."""
    console.misuse("console", "link", *words)
    assert ConsoleLink.select().count(engine) == 0


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "a\x1b[31m"])
def test_a_name_that_cannot_be_shown_is_refused(console, name):
    """A person's name has 1 to 100 printable characters."""
    refusal = console.refusal("console", "link", "--as", name, "--role", "viewer")
    assert "1 to 100 printable characters" in refusal


@pytest.mark.parametrize("name", ["everybody", " Everybody "])
def test_nobody_is_called_everybody(console, name):
    """Actions about all people have this subject."""
    refusal = console.refusal("console", "link", "--as", name, "--role", "viewer")
    assert refusal == "everybody stands for all people: choose another name\n"


def test_there_are_no_links_to_a_console_that_is_off(cli, engine):
    """The refusal names the setting."""
    refusal = cli.refusal("console", "link", "--as", "ann", "--role", "viewer")
    assert refusal == "the console is off; set VERIFYD_CONSOLE=on and restart the service\n"
    assert ConsoleLink.select().count(engine) == 0


@pytest.mark.parametrize(
    ("words", "left"), [(["ann"], ["ben"]), (["ANN"], ["ben"]), ([], []), (["eve"], ["ben", "ann"])]
)
def test_sessions_and_links_of_a_person_end(cli, engine, words, left):
    """`console end` ends those of one person or of everybody, also while the console is off."""
    for name in ("ann", "ben"):
        open_session(engine, create_link(engine, name, Role.VIEWER))
        create_link(engine, name, Role.VIEWER)
    made = cli.json("console", "end", *words)
    assert made == {"sessions": 2 - len(left), "links": 2 - len(left)}
    assert sorted(each.name for each in list_sessions(engine)) == sorted(left)


def test_the_end_of_sessions_is_a_sentence(cli, engine):
    """The last line counts what ended."""
    open_session(engine, create_link(engine, "ann", Role.VIEWER))
    told = cli.run("console", "end", "ann").stdout.splitlines()[-1]
    assert told == "1 session ended, 0 unused links withdrawn"


@ON_SQLITE
def test_a_restore_signs_everybody_out(console, engine, tmp_path, monkeypatch):
    """A session or link that has ended since the backup must not come back.

    Nor do tasks of the audit trail, whose results no backup has (D138).
    """
    open_session(engine, create_link(engine, "ann", Role.OPERATOR))
    create_link(engine, "ben", Role.OPERATOR)
    tasks = AuditTasks(engine, Config.from_env())
    monkeypatch.setattr("app.processes.start", lambda *_, kept: None)
    tasks.begin(AuditTaskRequest("search", "x", "ann"), TrailQuestion())
    backup = console.json("backup", tmp_path / "backups")["backup"]
    assert not list(Path(backup).rglob("*.question"))  # No backup has what was asked.
    assert len(list_sessions(engine)) == 1
    close_quietly(engine)
    console.json("restore", backup)
    for model in (ConsoleSession, ConsoleLink, AuditTask):
        assert model.select().count(engine) == 0
