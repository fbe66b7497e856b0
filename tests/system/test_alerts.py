"""Alerts of real commands to real destinations: one per bad night, none for a good one."""

import base64
import fcntl
import hashlib
import hmac
import http.server
import json
import os
import re
import selectors
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import contextmanager
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from app import clock
from app.alerts import sending
from app.alerts.https import NotSent
from app.alerts.message import Alerted, Condition, composed
from app.alerts.morning import composed_report
from app.alerts.nightly import Run, record
from app.settings.destinations import Destination
from tests.contract.pages import PAGES
from tests.system.processes import DEADLINE_SECONDS, environment, run_command, until
from tests.system.threads import serving

KEY = b"k" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()
CAR = "registration,make\nAB12CDE,FORD\n"
PLATE = "SECRET1"
BAD = f"registration,insured\n{PLATE},maybe\n"
TRIAL = composed([Condition("load:rdw", "it failed", "It failed.", 1, "mend it")], [])
SHAPELESS = "this is no register\n"


@pytest.fixture
def database_kind() -> str:
    """SQLite: unit tests try both databases within one process."""
    return "sqlite"


class Nights:
    """An installation with a drop directory; a command keeps its alerts."""

    def __init__(self, world) -> None:
        self.directory = world.directory
        self.drop = self.directory / "drop"
        self.drop.mkdir()
        self.backups = self.directory / "backups"
        self.got = self.directory / "got"
        self.got.mkdir()
        self.script = self.command(f'cat >"{self.got}/$NOTICE_ID"')
        self.settings = {
            "database_url": world.config.database_url,
            "state_dir": world.config.state_dir,
            "data_dir": world.config.data_dir,
            "notify": f"exec:{self.script}",
        }

    def command(self, text: str, name: str = "alert") -> Path:
        """Make a script."""
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def put(self, name: str, text: str) -> None:
        """Put a file into the drop, with an old time of change."""
        path = self.drop / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_700_000_000, 1_700_000_000))

    def run(self, *words: object, **settings: object) -> subprocess.CompletedProcess[str]:
        """Run a command with these settings."""
        return run_command(*words, **(self.settings | settings))

    def night(self) -> list[dict]:
        """Run backup, load, watch and delivery of a night; return the sent messages."""
        # Times are in seconds: a run ends the alert of one that began in an earlier second.
        second = clock.now()
        until(lambda: clock.now() > second, "the next second")
        before = set(self.got.iterdir())
        self.run("backup", self.backups, "--scheduled")
        self.run("import", "--drop", self.drop, "--scheduled")
        assert self.run("watch").returncode == 0
        if not any((self.directory / "notices" / "queue").iterdir()):
            return []
        assert self.run("notify", "--deliver").returncode == 0
        return [json.loads(path.read_text())["data"] for path in set(self.got.iterdir()) - before]


@pytest.fixture
def nights(world) -> Nights:
    """An installation before its first night."""
    return Nights(world)


@pytest.mark.system_long
class TestNights:
    def test_one_alert_for_each_bad_night_none_for_a_good_one(self, nights):
        """One message has all failures of a night, and another one their end."""
        nights.put("good.csv", CAR)
        assert nights.night() == []

        nights.put("a.csv", BAD)
        nights.put("fleet/b.csv", BAD)
        nights.put("c.csv", SHAPELESS)
        (bad,) = nights.night()
        assert bad["subject"].endswith(", and 2 more")
        for part in ("register native failed", "register fleet failed", "a.csv", "b.csv", "c.csv"):
            assert part in bad["text"]
        assert PLATE not in json.dumps(bad)
        assert nights.night() == []

        nights.put("a.csv", BAD)
        (again,) = nights.night()
        assert "register native failed" in again["subject"]
        nights.put("a.csv", CAR)
        nights.put("fleet/b.csv", CAR)
        (solved,) = nights.night()
        assert "solved: " in solved["subject"]
        assert len(solved["solved"]) == 2
        nights.put("c.csv", CAR)
        (solved,) = nights.night()
        assert solved["subject"].endswith("solved: a load of an unknown register failed")
        assert nights.night() == []

    def test_a_failed_load_is_reported_although_another_succeeded(self, nights):
        """A register can be up to date although a file of that night was not loaded."""
        nights.put("1.csv", BAD)
        nights.put("2.csv", CAR)
        (bad,) = nights.night()
        assert "the nightly load did not load everything" in bad["subject"]
        assert f"1.csv: not loaded; moved to {nights.drop}/failed." in bad["text"]
        assert len(nights.night()) == 1
        assert nights.night() == []

    def test_files_of_the_same_name_are_different_failures(self, nights):
        """Failures of two registers, and of none, are reported in one message."""
        for name in ("rdw/data.csv", "mid/data.csv", "data.csv"):
            nights.put(name, SHAPELESS)
        options = nights.directory / "options"
        options.mkdir()
        (options / "mid").write_text("--no-such-option")
        words = ["import", "--drop", nights.drop, "--options", options, "--scheduled"]
        assert nights.run(*words).returncode == 1
        nights.run("notify", "--deliver")
        (told,) = nights.got.iterdir()
        keys = [each["key"] for each in json.loads(told.read_text())["data"]["problems"]]
        assert keys == ["load:mid", "load:rdw", "load:?"]
        assert nights.run("watch").stdout.count("failed, at ") == 3
        nights.put("data.csv", CAR)
        nights.night()
        assert "unknown register" not in nights.run("watch").stdout

    @pytest.mark.parametrize(
        "words", [["some.csv"], ["some.csv", "--register", "rdw", "--map", "missing.toml"]]
    )
    def test_a_load_without_a_terminal_is_reported(self, nights, words):
        """An unrecognised file and a mistake in the options are reported from cron, too."""
        file = nights.directory / "some.csv"
        file.write_text(SHAPELESS)
        assert nights.run("import", file, *words[1:]).returncode == 1
        nights.run("notify", "--deliver")
        (told,) = nights.got.iterdir()
        assert "some.csv; no rows read" in told.read_text()

    def test_a_watch_reports_wrong_settings_and_all_else(self, nights):
        """The watch reports wrong settings and all other conditions."""
        nights.put("rdw/a.csv", SHAPELESS)
        nights.run("import", "--drop", nights.drop, "--scheduled", notify="")
        ended = nights.run("watch", workers="none", nonsense=1)
        assert (ended.returncode, "VERIFYD_NONSENSE, VERIFYD_WORKERS." in ended.stdout) == (0, True)
        nights.run("notify", "--deliver")
        (told,) = nights.got.iterdir()
        keys = [each["key"] for each in json.loads(told.read_text())["data"]["problems"]]
        assert keys == ["load:rdw", "settings:wrong"]
        ended = nights.run("watch", notify="nowhere")
        assert (ended.returncode, "register rdw" in ended.stdout) == (1, True)
        assert "VERIFYD_NOTIFY: " in ended.stderr

    def test_a_failed_backup_is_reported(self, nights):
        """The message has the reason, if it can be sent, and another message reports the end."""
        nights.backups.write_text("in the way")
        (bad,) = nights.night()
        assert "the nightly backup failed" in bad["subject"]
        assert "It failed: File exists." in bad["text"]
        nights.backups.unlink()
        (solved,) = nights.night()
        assert "solved: the nightly backup failed" in solved["subject"]
        assert nights.night() == []

    def test_a_lost_database_is_reported(self, nights, world):
        """The queue needs no database; the alert ends when the load has run again."""
        assert nights.night() == []
        world.store.lose()
        assert nights.run("import", "--drop", nights.drop, "--scheduled").returncode == 1
        assert nights.run("watch").returncode == 0
        nights.run("notify", "--deliver")
        (bad,) = nights.got.iterdir()
        text = json.loads(bad.read_text())["data"]["text"]
        assert "The database cannot be used." in text
        assert "The nightly load of " in text
        world.store.give_back()
        titles = {each["title"] for told in nights.night() for each in told["solved"]}
        assert titles == {"the database cannot be used", "the nightly load did not load everything"}
        assert nights.night() == []

    def test_a_run_refused_beside_another_is_over_when_that_one_has_ended(self, nights, world):
        """The alert ends although the other run began before the refused one."""
        began_at = clock.now() - 60
        state_dir = Path(world.config.state_dir)
        assert nights.night() == []
        with open(state_dir / "drop.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ended = nights.run("import", "--drop", nights.drop, "--scheduled")
            assert (ended.returncode, "is running" in ended.stderr) == (1, True)
        refused_at = clock.now()
        until(lambda: clock.now() > refused_at, "the next second")
        record(world.engine, world.config.data_dir, Run("import", True, began_at))
        assert nights.run("watch").returncode == 0
        nights.run("notify", "--deliver")
        told = sorted(json.loads(path.read_text())["type"] for path in nights.got.iterdir())
        assert told == ["verifyd.alert", "verifyd.solved"]

    @pytest.mark.parametrize("job", ["backup", "import"])
    def test_wrong_settings_are_reported(self, nights, job):
        """Wrong settings stop a job; the alert uses none of them."""
        words = {"backup": [nights.backups], "import": ["--drop", nights.drop]}[job]
        assert nights.run(job, *words, "--scheduled", backup_limit="much").returncode == 1
        nights.run("notify", "--deliver")
        (told,) = nights.got.iterdir()
        assert json.loads(told.read_text())["data"]["problems"][0]["key"] == f"job:{job}"

    def test_a_load_by_hand_is_reported_the_next_morning(self, nights):
        """At a terminal the alert is sent only the next morning, and only if it is still true."""
        file = nights.directory / "a.csv"
        file.write_text(BAD)
        ours, terminal = os.openpty()
        words = [sys.executable, "-m", "app", "import", str(file)]
        with subprocess.Popen(
            words, env=environment(**nights.settings), stdout=subprocess.DEVNULL, stderr=terminal
        ) as load:
            os.close(terminal)
            until(lambda: load.poll() is not None, "the load to end")
        os.close(ours)
        assert load.returncode == 1
        assert not list((nights.directory / "notices").glob("queue/*.json"))
        assert len(nights.night()) == 1
        file.write_text(CAR)
        assert nights.run("import", file).returncode == 0
        assert nights.run("import", file, "--dry-run").returncode == 0
        nights.run("notify", "--deliver")
        assert len(list(nights.got.iterdir())) == 2

    def test_a_stopped_night_is_reported(self, nights):
        """A run that TERM stops, as at a shutdown, is reported; its files wait for the next one."""
        os.mkfifo(nights.drop / "never.csv")
        nights.put("x/a.csv", CAR)
        words = ["import", "--drop", str(nights.drop), "--scheduled"]
        with subprocess.Popen(
            [sys.executable, "-m", "app", *words],
            env=environment(**nights.settings),
            stderr=subprocess.PIPE,
            text=True,
        ) as load:
            assert load.stderr is not None
            load.stderr.readline()  # The fifo was skipped.
            load.send_signal(signal.SIGTERM)
            load.stderr.read()
        assert load.returncode == 128 + signal.SIGTERM
        nights.run("notify", "--deliver")
        (told,) = nights.got.iterdir()
        assert "Left alone: 1;" in told.read_text()


class Server(http.server.ThreadingHTTPServer):
    """Serves https on loopback, with its own certificate."""

    def __init__(self, certificate: Path, key: Path) -> None:
        super().__init__(("127.0.0.1", 0), Endpoint)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.certificate = certificate
        self.url = f"https://localhost:{self.server_port}/hook?token=abc"
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.behaviour = answering(204)


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Keeps the requests, and answers with the status of its server."""

    server: Server

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), body))
        self.server.behaviour(self)

    def log_message(self, *_):
        pass


def answering(status: int, text: str = "", **headers: str):
    """Return a handler that answers with a status and a text."""

    def answer(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(text.encode())))
        handler.end_headers()
        handler.wfile.write(text.encode())

    return answer


@contextmanager
def https_server(directory: Path, name: str = "localhost"):
    """Run a server with a certificate for this name."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is needed to make a certificate")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    files = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    files += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, *words.split(), *files], check=True, capture_output=True)
    with serving(Server(certificate, key)) as server:
        yield server


@pytest.fixture
def endpoint(tmp_path, monkeypatch):
    """A server with a trusted certificate."""
    with https_server(tmp_path) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        yield server


def outcomes_of(nights, notify: str, **settings: object) -> tuple[int, list[dict]]:
    """Send a test message; return the exit status and the outcomes."""
    ended = nights.run("notify", "--test", "--json", notify=notify, **settings)
    return ended.returncode, json.loads(ended.stdout)


class TestHttps:
    def test_it_is_signed_as_standard_webhooks(self, nights, endpoint):
        """The secret verifies the sender, the time and the content of a message."""
        status, outcomes = outcomes_of(nights, endpoint.url, notify_secret=SECRET)
        assert (status, [each["outcome"] for each in outcomes]) == (0, ["sent"])
        ((path, headers, body),) = endpoint.got
        assert path == "/hook?token=abc"
        assert headers["Content-Type"] == "application/json"
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body.decode()}"
        digest = hmac.new(KEY, signed.encode(), hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        document = json.loads(body)
        assert (document["type"], document["data"]["id"]) == ("verifyd.test", headers["webhook-id"])

    @pytest.mark.parametrize(
        ("behaviour", "reason"),
        [
            (answering(500), "it answered 500"),
            (answering(302, Location="https://localhost/"), "it answered 302: redirects are not"),
            (answering(410), "it answered 410"),
            (lambda handler: handler.wfile.write(b"nonsense\r\n\r\n"), "BadStatusLine"),
            (lambda handler: handler.connection.close(), "RemoteDisconnected"),
        ],
    )
    def test_anything_but_2xx_is_a_failure(self, nights, endpoint, behaviour, reason):
        """The reason is reported without the path of the URL and without the secret."""
        endpoint.behaviour = behaviour
        status, (outcome,) = outcomes_of(nights, endpoint.url, notify_secret=SECRET)
        assert (status, outcome["outcome"]) == (1, "failed")
        assert outcome["reason"].startswith(reason)
        assert "token" not in json.dumps(outcome)
        assert len(endpoint.got) == 1

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("invalid_payload", "invalid_payload"),
            ("\r\n  no_text  \nmore", "no_text"),
            ("\x1b[2J\x00" + "x" * 300, "\\x1b[2J\\x00" + "x" * 189),
            ("a" * 5000, "a" * 200),
            (
                "Cannot POST /HOOK?token=abc/T0/S%C3%A9cret",
                "Cannot POST /...?...=abc/T0/S%C3%A9cret",
            ),
        ],
    )
    def test_the_first_line_of_a_refusal_is_shown(self, nights, endpoint, text, shown):
        """200 printable characters of it, without parts of the URL, which can be a token."""
        endpoint.behaviour = answering(400, text)
        _, (outcome,) = outcomes_of(nights, endpoint.url, notify_secret=SECRET)
        assert outcome["reason"] == f"it answered 400: {shown}"

    def test_what_is_only_accepted_is_not_called_delivered(self, nights, endpoint):
        """A service that answers 202 has not shown the message to anybody yet."""
        endpoint.behaviour = answering(202)
        settings = {"notify": endpoint.url, "notify_secret": SECRET}
        status, (outcome,) = outcomes_of(nights, endpoint.url, notify_secret=SECRET)
        doubt = "it answered 202, so whether the message arrives is not known"
        assert (status, outcome["outcome"], outcome["reason"]) == (0, "accepted", doubt)
        nights.put("a.csv", BAD)
        nights.run("import", "--drop", nights.drop, **settings)
        ended = nights.run("notify", "--deliver", **settings)
        assert f"accepted by {outcome['destination']}: {doubt}" in ended.stderr
        assert (ended.returncode, "delivered to" in ended.stderr) == (0, False)

    def test_destinations_on_one_host_have_names_of_their_own(self, nights, endpoint):
        """The name has the place in the setting, and nothing of the path."""
        _, outcomes = outcomes_of(nights, f"{endpoint.url},{endpoint.url}2", notify_secret=SECRET)
        host = endpoint.url.partition("/hook")[0]
        assert [each["destination"] for each in outcomes] == [
            f"{host}/ (destination 1)",
            f"{host}/ (destination 2)",
        ]

    def test_its_certificate_must_be_valid(self, nights, endpoint, tmp_path):
        """An unknown authority or another name is refused."""
        (tmp_path / "other").mkdir()
        with https_server(tmp_path / "other", "example.com") as other:
            status, (outcome,) = outcomes_of(nights, other.url, notify_secret=SECRET)
            assert (status, other.got) == (1, [])
            assert outcome["reason"].startswith("its certificate is not valid")

    def test_without_a_secret_nothing_is_sent(self, nights, endpoint):
        """`check` reports the missing secret in advance."""
        status, (outcome,) = outcomes_of(nights, endpoint.url)
        assert (status, endpoint.got) == (1, [])
        assert "VERIFYD_NOTIFY_SECRET" in outcome["reason"]
        assert "no VERIFYD_NOTIFY_SECRET" in nights.run("check", notify=endpoint.url).stdout

    def test_a_retry_has_the_same_id(self, nights, endpoint):
        """A retry has the same id, so that the receiver can recognise it."""
        endpoint.behaviour = answering(503)
        settings = {"notify": endpoint.url, "notify_secret": SECRET}
        nights.put("a.csv", BAD)
        nights.run("import", "--drop", nights.drop, **settings)
        failed = nights.run("notify", "--deliver", **settings)
        assert (failed.returncode, "it answered 503" in failed.stderr) == (1, True)
        assert "token" not in failed.stderr
        endpoint.behaviour = answering(200)
        (queued,) = (nights.directory / "notices" / "queue").iterdir()
        entry = json.loads(queued.read_text())
        queued.write_text(json.dumps(entry | {"tried_at": 0}))
        assert nights.run("notify", "--deliver", **settings).returncode == 0
        assert len({headers["webhook-id"] for _, headers, _ in endpoint.got}) == 1
        assert len(endpoint.got) == 2
        assert nights.run("notify", "--deliver", **settings).returncode == 0
        assert len(endpoint.got) == 2


class Proxy(http.server.ThreadingHTTPServer):
    """A proxy on loopback, which keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.asked: list[str] = []


class Tunnel(http.server.BaseHTTPRequestHandler):
    """Lets through whoever has the right password."""

    server: Proxy

    def do_CONNECT(self):
        self.server.asked.append(self.path)
        wanted = base64.b64encode(b"user:p@ss").decode()
        if self.headers["Proxy-Authorization"] != f"Basic {wanted}":
            self.send_error(407)
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as there:
            self.send_response(200)
            self.end_headers()
            # A long test session has more open files than select() takes.
            with selectors.DefaultSelector() as ends:
                for one, other in ((self.connection, there), (there, self.connection)):
                    ends.register(one, selectors.EVENT_READ, (one, other))
                while data := (ready := ends.select()[0][0].data)[0].recv(65_536):
                    ready[1].sendall(data)
        self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def proxy():
    """A running proxy."""
    with serving(Proxy()) as server:
        yield server


class TestProxy:
    @pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
    @pytest.mark.parametrize("scheme", ["http://", ""])
    def test_it_is_used(self, nights, endpoint, proxy, monkeypatch, name, scheme):
        """The message goes through it, encrypted for the destination, with its own password."""
        monkeypatch.setenv(name, f"{scheme}user:p%40ss@127.0.0.1:{proxy.server_port}")
        status, outcomes = outcomes_of(nights, endpoint.url, notify_secret=SECRET)
        assert (status, len(endpoint.got)) == (0, 1), outcomes
        ((_, headers, _),) = endpoint.got
        assert headers["Host"] == f"localhost:{endpoint.server_port}"
        assert "Proxy-Authorization" not in headers
        assert proxy.asked == [f"localhost:{endpoint.server_port}"]

    @pytest.mark.parametrize("exempt", ["localhost", ".example.com, localhost", "*"])
    def test_no_proxy_names_hosts_without_it(self, nights, endpoint, proxy, monkeypatch, exempt):
        """A destination in the own network is reached directly."""
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("NO_PROXY", exempt)
        status, _ = outcomes_of(nights, endpoint.url, notify_secret=SECRET)
        assert (status, len(endpoint.got), proxy.asked) == (0, 1, [])

    def test_its_refusal_is_told_apart(self, nights, endpoint, proxy, monkeypatch):
        """The reason names the proxy and its answer, and has no password."""
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:wrong@127.0.0.1:{proxy.server_port}")
        status, (outcome,) = outcomes_of(nights, endpoint.url, notify_secret=SECRET)
        assert (status, endpoint.got) == (1, [])
        assert outcome["reason"].startswith(f"the proxy 127.0.0.1:{proxy.server_port}: ")
        assert "407" in outcome["reason"]
        assert "wrong" not in outcome["reason"]

    @pytest.mark.parametrize("value", ["socks5://127.0.0.1:9", "http://", "http://h:x", "h:0"])
    def test_a_wrong_one_is_named(self, nights, endpoint, monkeypatch, value):
        """Nothing is sent past a proxy that cannot be used."""
        monkeypatch.setenv("HTTPS_PROXY", value)
        _, (outcome,) = outcomes_of(nights, endpoint.url, notify_secret=SECRET)
        assert outcome["reason"].startswith("HTTPS_PROXY must be http://HOST:PORT")
        assert endpoint.got == []

    def test_commands_know_it(self, nights, monkeypatch):
        """A command that sends a message by curl needs the same proxy."""
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        script = nights.command(f'echo "$HTTPS_PROXY" >"{nights.got}/proxy"')
        assert outcomes_of(nights, f"exec:{script}")[0] == 0
        assert (nights.got / "proxy").read_text() == "http://127.0.0.1:9\n"


def slack(headers, document):
    """Answer as an incoming webhook of Slack."""
    text = document.get("text")
    if not isinstance(text, str) or not text:
        return 400, "no_text"
    # What is between these characters is a link or calls somebody.
    return (400, "invalid_payload") if re.search("[<>]|&(?!amp;|lt;|gt;)", text) else (200, "ok")


def mattermost(headers, document):
    """Answer as an incoming webhook of Mattermost."""
    fenced = re.fullmatch(r"(?s)```\n[^`]+```", document.get("text", ""))
    return (200, "ok") if fenced else (400, "Unable to parse incoming data")


def gotify(headers, document):
    """Answer as `POST /message` of Gotify."""
    if headers.get("X-Gotify-Key") != "TOKEN":
        return 401, "you need to provide a valid access token"
    is_right = document["message"] and document["title"] and type(document["priority"]) is int
    return (200, "{}") if is_right else (400, "Field 'message' is required")


def pagerduty(headers, document):
    """Answer as the Events API v2 of PagerDuty."""
    is_right = len(document["routing_key"]) == 32 and 0 < len(document["dedup_key"]) <= 255
    if document["event_action"] == "trigger":
        payload = document["payload"]
        is_right &= 0 < len(payload["summary"]) <= 1024 and bool(payload["source"])
        is_right &= payload["severity"] in ("critical", "error", "warning", "info")
    else:
        is_right &= document["event_action"] == "resolve"
    return (202, "Event processed") if is_right else (400, "Event object is invalid")


SERVICES = {"Slack": slack, "Mattermost": mattermost, "Gotify": gotify, "PagerDuty": pagerduty}
RECIPES = PAGES["deploy/docs/monitor.md"]


@pytest.fixture
def recipe(nights, endpoint):
    """`recipe(service)` makes the script on the page, which sends to a server with its rules."""
    missing = [each for each in ("curl", "jq") if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} missing on this machine")

    def make(service: str) -> Path:
        (text,) = re.findall(rf"(?ms)^\*\*{service}\*\*.*?^```sh\n(#!/bin/sh\n.*?)^```$", RECIPES)
        lines = [f'url = "{endpoint.url}"', f'cacert = "{endpoint.certificate}"']
        lines.append('header = "X-Gotify-Key: TOKEN"')
        (nights.directory / "chat.curl").write_text("\n".join(lines))
        (nights.directory / "pagerduty.key").write_text("k" * 32 + "\n")
        rules = SERVICES[service]

        def answer(handler):
            _, headers, body = endpoint.got[-1]
            assert headers["Content-Type"] == "application/json"
            answering(*rules(headers, json.loads(body)))(handler)

        endpoint.behaviour = answer
        return nights.command(text.replace("/etc/verifyd/", f"{nights.directory}/"), service)

    return make


class TestRecipes:
    @pytest.mark.parametrize("service", SERVICES)
    def test_the_service_takes_each_message(self, nights, endpoint, recipe, world, service):
        """Alerts with hostile texts, their end, tests and reports follow the service's rules."""
        script = recipe(service)
        text = '<!channel> & ```\n@all \\ \\n "' + "\u00fc" * 1500
        found = [Condition(f"load:{name}", f"{name} {text}", text, 1, "mend it") for name in "ab"]
        over = [Alerted("1", "it failed", 1, 1)]
        for message in (
            composed(found, over),
            composed([], over),
            composed_report(world.engine, world.config),
        ):
            sending.send(Destination("exec", str(script)), message, None)
        assert outcomes_of(nights, f"exec:{script}")[1][0]["outcome"] == "sent"
        documents = [json.loads(body) for _, _, body in endpoint.got]
        if service == "PagerDuty":
            ended = [each["event_action"] for each in documents]
            assert ended == [*["trigger"] * 2, *["resolve"] * 2, "trigger"]
            assert documents[2]["dedup_key"] == documents[3]["dedup_key"]
        else:
            assert len(documents) == 4

    @pytest.mark.parametrize("service", SERVICES)
    def test_a_refusal_is_a_failure(self, nights, endpoint, recipe, service):
        """The message is tried again, and the answer of the service is shown."""
        script = recipe(service)
        endpoint.behaviour = answering(400, "invalid_payload")
        ended = nights.run("notify", "--test", notify=f"exec:{script}")
        assert ended.returncode == 1
        assert "invalid_payload" in ended.stderr
        assert "token" not in ended.stdout + ended.stderr


class TestMorningReport:
    def test_it_arrives_everywhere_on_a_good_night(self, nights, endpoint, world, monkeypatch):
        """One report of a morning goes to a command, to https and by mail, as the same text."""
        nights.put("fleet/a.csv", CAR)
        settings = {"morning_report": "on", "notify_secret": SECRET}
        settings["notify"] = f"{nights.settings['notify']},{endpoint.url}"
        assert nights.run("import", "--drop", nights.drop, "--scheduled").returncode == 0
        for _ in range(2):
            assert nights.run("report", "--send", **settings).returncode == 0
            assert nights.run("notify", "--deliver", **settings).returncode == 0
        (told,) = nights.got.iterdir()
        ((_, _, body),) = endpoint.got
        assert told.read_bytes() == body
        document = json.loads(body)
        assert document["type"] == "verifyd.report"
        assert re.search(r"\nfleet +\d+ s ago +\d+ s +\+1\n", document["data"]["text"])
        nights.command(f'cat >"{nights.directory}/mail"', "sendmail")
        monkeypatch.setattr(sending, "_SENDMAIL_PATH", str(nights.directory))
        message = composed_report(world.engine, world.config)
        sending.send(Destination("mailto", "ops@example.com"), message, None)
        mail = message_from_bytes((nights.directory / "mail").read_bytes(), policy=policy.default)
        assert mail["Subject"].endswith(": morning report, all is well")
        assert mail.get_content() == message.text


class TestExec:
    def test_it_gets_the_facts_and_no_secret(self, nights, monkeypatch):
        """The command gets JSON on stdin, the main facts as variables, and no other variables."""
        monkeypatch.setenv("UNRELATED", "x")
        script = nights.command(f'env >"{nights.got}/env"; cat >"{nights.got}/stdin"')
        assert outcomes_of(nights, f"exec:{script}", notify_secret=SECRET)[0] == 0
        document = json.loads((nights.got / "stdin").read_text())
        seen = (nights.got / "env").read_text()
        assert f"NOTICE_SUBJECT={document['data']['subject']}\n" in seen
        assert f"NOTICE_ID={document['data']['id']}\n" in seen
        assert not re.search("VERIFYD_.*=|whsec|UNRELATED", seen)

    @pytest.mark.parametrize(
        ("text", "outcome"),
        [
            ("exit 0", "sent"),  # The command does not read its input.
            ("exec <&-; exit 0", "sent"),
            ("exit 3", "failed"),
            ("kill -9 $$", "failed"),
        ],
    )
    def test_its_exit_status_decides(self, nights, text, outcome):
        """The exit status decides, even if the command ignores its input."""
        script = nights.command(text)
        assert outcomes_of(nights, f"exec:{script}")[1][0]["outcome"] == outcome

    def test_one_that_hangs_is_ended_with_all_it_started(self, nights, monkeypatch):
        """A command over its time limit ends with its children; other destinations get theirs."""
        monkeypatch.setattr(sending, "COMMAND_SECONDS", 1)
        child = nights.directory / "child"
        script = nights.command(f'sleep 600 & echo $! >"{child}"; wait')
        with pytest.raises(NotSent, match="did not end within 1 s"):
            sending.send(Destination("exec", str(script)), TRIAL, None)
        until(lambda: not _lives(int(child.read_text())), "what it started to end")

    @pytest.mark.parametrize("path", ["/nonexistent/alert", "/etc/passwd"])
    def test_one_that_cannot_be_run_is_a_failure(self, nights, path):
        """The reason is the system's; the other destinations get theirs."""
        status, outcomes = outcomes_of(nights, f"exec:{path},exec:{nights.script}")
        assert (status, [each["outcome"] for each in outcomes]) == (1, ["failed", "sent"])


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


class TestMail:
    def test_sendmail_gets_a_plain_message(self, nights, monkeypatch):
        """The message goes to one address and is marked as automatic; its text adds no headers."""
        got = nights.got / "mail"
        nights.command(f'echo "$@" >"{got}.words"; cat >"{got}"', "sendmail")
        monkeypatch.setattr(sending, "_SENDMAIL_PATH", str(nights.directory))
        condition = Condition("load:rdw", "it failed", "Bcc: \u00fc failed.", 1, "mend it")
        message = composed([condition], [])
        destination = Destination("mailto", "ops@example.com")
        sending.send(destination, message, None)
        assert (nights.got / "mail.words").read_text() == "-t -i\n"
        mail = message_from_bytes(got.read_bytes(), policy=policy.default)
        assert mail["To"] == "ops@example.com"
        assert mail["Subject"] == message.subject
        assert mail["Auto-Submitted"] == "auto-generated"
        assert mail.get_content_type() == "text/plain"
        assert mail.get_content() == message.text

    def test_without_sendmail_it_is_a_failure(self, nights, monkeypatch):
        """The failure says what is missing."""
        monkeypatch.setattr(sending, "_SENDMAIL_PATH", str(nights.got))
        destination = Destination("mailto", "ops@example.com")
        with pytest.raises(NotSent, match="no sendmail"):
            sending.send(destination, TRIAL, None)


def test_without_a_destination_a_test_fails(nights):
    """A test without destinations must not suggest that alerts arrive."""
    ended = nights.run("notify", "--test", notify="")
    assert (ended.returncode, ended.stderr) == (
        1,
        "VERIFYD_NOTIFY names no destination; set it first\n",
    )


def test_alerts_that_wait_are_a_warning(nights):
    """`check` is the only remaining way to report undelivered alerts."""
    broken = nights.command("exit 1", "broken")
    nights.put("a.csv", BAD)
    nights.run("import", "--drop", nights.drop, notify=f"exec:{broken}")
    assert nights.run("notify", "--deliver", notify=f"exec:{broken}").returncode == 1
    (queued,) = (nights.directory / "notices" / "queue").iterdir()
    entry = json.loads(queued.read_text())
    entry["message"]["created_at"] -= 7200
    queued.write_text(json.dumps(entry))
    assert (
        "Alerts are not delivered: 1; the oldest has waited for 2 h" in nights.run("check").stdout
    )


def test_a_running_watch_makes_no_second_message(nights):
    """A command that waited for the queue sees that the condition was sent."""
    nights.put("a.csv", BAD)
    (nights.directory / "notices").mkdir()
    with (nights.directory / "notices" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        nights.run("import", "--drop", nights.drop, notify="")
        commands = [
            subprocess.Popen(
                [sys.executable, "-m", "app", "watch"],
                env=environment(**nights.settings),
                stdout=subprocess.DEVNULL,
            )
            for _ in range(2)
        ]
        fcntl.flock(lock, fcntl.LOCK_UN)
    for command in commands:
        assert command.wait(DEADLINE_SECONDS) == 0
    assert len(list((nights.directory / "notices" / "queue").iterdir())) == 1
