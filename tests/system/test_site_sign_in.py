"""Sign-in by the customer's own directory, through the shipped nginx site (D189)."""

import json
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from app.console.rendering import ROOT
from app.people.sessions import list_sessions
from app.settings.roles import Role
from app.settings.values import proxy_secret
from tests.system.nginx import running
from tests.system.processes import connected, free_port, read_answer, run_command, send
from tests.system.scale_out import FOLDER, balanced, command_before
from tests.system.site import SECRET, SITE, add_sign_in, behind_site, command_with_site
from tests.system.threads import serving

PROXY = f"{ROOT}/sign-in/proxy"
STATED = ("X-Verifyd-User", "X-Verifyd-Groups", "X-Verifyd-Proxy-Secret")
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
EXAMPLES = ("password-file", "auth-request")
# A path of each location that forwards requests, by what the location is in the file.
PATHS = {
    "/": "/v1/account",
    "~ ^/($|docs$|docs\\.md$|docs/|openapi\\.json$|console$|console/)": PROXY,
    "= /metrics": "/metrics",
    "= /metrics/10.0.0.11": "/metrics/10.0.0.11",
    "= /metrics/10.0.0.12": "/metrics/10.0.0.12",
    "= /v1/vehicle/bulk-insurance": "/v1/vehicle/bulk-insurance",
    "= /v1/compliance/bulk": "/v1/compliance/bulk",
}


class Answering(BaseHTTPRequestHandler):
    """Keeps the headers of each request, and answers as `answer` says."""

    seen: ClassVar[list[dict[str, list[str]]]]

    def answer(self) -> tuple[int, dict[str, str]]:
        """Return a status, and headers."""
        return 200, {}

    def do_GET(self) -> None:
        names = {name.lower() for name in self.headers}
        self.seen.append({name: self.headers.get_all(name, []) for name in names})
        status, headers = self.answer()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_arguments) -> None:
        """Print nothing."""


@contextmanager
def answering(**members) -> Iterator[tuple[str, type[Answering]]]:
    """Run a server; yield its address and what it keeps."""
    kind = type("Kind", (Answering,), {"seen": [], **members})
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), kind)) as server:
        yield f"127.0.0.1:{server.server_port}", kind


@pytest.fixture
def service(serve, socket_directory):
    """A service on a Unix socket, where people sign in by a directory."""
    groups = "operators=operator,staff=clerk"
    bind = f"unix:{socket_directory}/socket"
    settings = {"console_proxy_secret": SECRET, "console_groups": groups}
    return serve(bind=bind, console="on", **settings)


def locations_of(file: Path) -> list[str]:
    """Return what the locations are that forward requests."""
    location = r"    location ((?:= |~ )?\S+) \{\n(.*?)\n    \}"
    found = re.findall(location, file.read_text(), re.DOTALL)
    return [named for named, body in found if "proxy_pass" in body]


@pytest.mark.parametrize("file", [SITE, FOLDER / "nginx.conf"], ids=["one host", "several"])
def test_no_location_forwards_what_a_client_says_of_itself(file, tmp_path):
    """Each of the three headers is cleared, also if it is sent twice, in every location."""
    lines = "".join(f"{name}: made-up\r\n" * 2 for name in (*STATED, "X_Verifyd_User"))
    locations = locations_of(file)
    with answering() as (upstream, kept):
        behind = (
            behind_site(upstream, tmp_path)
            if file == SITE
            else balanced([upstream, upstream], tmp_path)
        )
        with behind as site:
            for location in locations:
                with connected(site) as connection:
                    line = f"GET {PATHS[location]} HTTP/1.1\r\nHost: x\r\n"
                    connection.sendall(f"{line}{lines}X-Other: kept\r\n\r\n".encode())
                    assert read_answer(connection).status == 200, location
    assert len(kept.seen) == len(locations) > 2
    for headers in kept.seen:
        assert headers["x-other"] == ["kept"]
        assert not [name for name in headers if "verifyd" in name]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_forwards_what_the_site_forwards(example):
    """Its location sets each header that the site sets for the others, in the same way."""
    site = re.findall(r"^    (proxy_set_header .*;)$", SITE.read_text(), re.MULTILINE)
    text = (SITE.parent / f"server-{example}.conf").read_text()
    (location,) = re.findall(rf"location = {PROXY} \{{\n(.*?)\n\}}", text, re.DOTALL)
    own = re.findall(r"^    (proxy_set_header .*;)$", location, re.MULTILINE)
    assert {line for line in site if "X-Verifyd" not in line} < {*own}
    assert "include /etc/verifyd/nginx/secret.conf;" in location
    assert {line.split()[1] for line in own} >= set(STATED[:2])


@pytest.mark.parametrize("example", EXAMPLES)
def test_nginx_takes_an_example(example, tmp_path):
    """`nginx -t` finds no errors and no warnings, in either site; Gixy finds no weakness."""
    add_sign_in(tmp_path, example)
    bind = f"127.0.0.1:{free_port()}"
    for command in (
        command_before(["127.0.0.1:1", "127.0.0.1:2"], bind, tmp_path),
        command_with_site("127.0.0.1:1", bind, tmp_path),
    ):
        ended = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert "[warn]" not in ended.stderr
    gixy = [Path(sys.executable).parent / "gixy", "--format", "json", tmp_path / "nginx.conf"]
    ended = subprocess.run(gixy, capture_output=True, text=True, check=False)
    assert json.loads(ended.stdout) == [], ended.stdout


def test_the_page_makes_a_secret_that_both_sides_take(tmp_path):
    """Its lines write one secret into two files, which only their owner can read."""
    page = (SITE.parent.parent / "docs/staff.md").read_text()
    (block,) = re.findall(r"```sh\n   (secret=.*?)```", page, re.DOTALL)
    script = block.replace("sudo ", "").replace(" /etc/", f" {tmp_path}/etc/")
    subprocess.run(["sh", "-eu", "-c", script], check=True)
    credential = tmp_path / "etc/credstore/verifyd.console_proxy_secret"
    added = tmp_path / "etc/verifyd/nginx/secret.conf"
    secret = proxy_secret(credential.read_text().strip())
    assert len(secret) == 64
    assert added.read_text() == f"proxy_set_header X-Verifyd-Proxy-Secret {secret};\n"
    assert {each.stat().st_mode & 0o777 for each in (credential, added)} == {0o600}


class TestPasswordFile:
    @pytest.fixture
    def site(self, service, tmp_path):
        """The address of nginx, which knows three people's passwords."""
        passwords = tmp_path / "passwords"
        words = ["openssl", "passwd", "-6", "-stdin"]
        made = subprocess.run(words, input=b"secret\n", capture_output=True, check=True)
        hashed = made.stdout.decode().strip()
        passwords.write_text("".join(f"{name}:{hashed}\n" for name in ("ann", "ben", "eve")))
        add_sign_in(tmp_path, "password-file", {"/etc/nginx/verifyd.passwords": f"{passwords}"})
        with behind_site(service.bind, tmp_path) as bind:
            yield bind

    def test_people_sign_in_by_their_passwords(self, world, site):
        """A person in a group gets its role; others get a page that says why, and no session."""
        page = send(site, "GET", PROXY)
        assert (page.status, page.headers["WWW-Authenticate"]) == (401, 'Basic realm="verifyd"')
        assert b"<h1>You are not signed in</h1>" in page.body
        made_up = dict.fromkeys(STATED, "operators")
        for name, role in (("ann", Role.OPERATOR), ("ben", Role.CLERK)):
            page = send(site, "GET", PROXY, headers={**basic(name), **made_up})
            assert f"<strong>{name}</strong>, with the role <strong>{role}" in page.body.decode()
            opened = send(site, "POST", PROXY, headers={**basic(name), **SAME_ORIGIN})
            assert opened.status == 303
            cookie = {"Cookie": opened.headers["Set-Cookie"].partition(";")[0]}
            found = send(site, "GET", f"{ROOT}/look-up", headers=cookie)
            assert f'<span class="role">{role}</span>' in found.body.decode()
        refused = send(site, "POST", PROXY, headers={**basic("eve"), **SAME_ORIGIN, **made_up})
        assert (refused.status, b"You are eve" in refused.body) == (403, True)
        assert send(site, "POST", PROXY, headers=basic("ann", "wrong")).status == 401
        assert {each.name for each in list_sessions(world.engine)} == {"ann", "ben"}

    @pytest.mark.system_long
    def test_guesses_are_limited(self, site):
        """After 40 guesses at once the answer is a 429, a page; others' passwords still work."""
        statuses = [send(site, "GET", PROXY, headers=basic("ann", "x")).status for _ in range(60)]
        assert set(statuses[:41]) == {401}
        assert set(statuses) == {401, 429}
        page = send(site, "GET", PROXY, headers=basic("ann"))
        assert (page.status, page.media_type) == (429, "text/html")
        assert send(site, "GET", PROXY).status == 401
        with connected(site, source="127.0.0.2") as connection:
            line = f"Authorization: {basic('ann')['Authorization']}\r\n"
            connection.sendall(f"GET {PROXY} HTTP/1.1\r\nHost: x\r\n{line}\r\n".encode())
            assert read_answer(connection).status == 200

    def test_the_service_gets_no_password(self, tmp_path):
        """It gets the name, the groups and the secret, each once."""
        passwords = tmp_path / "passwords"
        passwords.write_text("ann:{PLAIN}secret\n")
        add_sign_in(tmp_path, "password-file", {"/etc/nginx/verifyd.passwords": f"{passwords}"})
        with answering() as (upstream, kept), behind_site(upstream, tmp_path) as site:
            made_up = dict.fromkeys(STATED, "made-up")
            assert send(site, "GET", PROXY, headers={**basic("ann"), **made_up}).status == 200
        (headers,) = kept.seen
        assert "authorization" not in headers
        stated = [headers[name.lower()] for name in STATED]
        assert stated == [["ann"], ["operators"], [SECRET]]


def basic(name: str, password: str = "secret") -> dict[str, str]:
    """Return the header that a browser sends with a password."""
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


class TestAuthRequest:
    """A small authentication server: the cookie `who` names the person, whatever else is asked."""

    PEOPLE: ClassVar = {
        "Ann": "staff,operators",
        "Jos\u00e9": "staff",
        "eve": "guests",
        "huge": "g" * 8_300,
        "many": ",".join(f"group-{number}" for number in range(500)) + ",staff",
    }
    SERVERS: ClassVar = {
        "Authelia": ("Remote-User", "Remote-Groups", "https://auth.example.com/?rd=here"),
        "oauth2-proxy": ("X-Auth-Request-User", "X-Auth-Request-Groups", ""),
    }

    @pytest.fixture(
        params=["Authelia", pytest.param("oauth2-proxy", marks=pytest.mark.system_long)]
    )
    def kind(self, request) -> str:
        """What the authentication server is like."""
        return request.param

    @pytest.fixture
    def site(self, service, tmp_path, kind):
        """The address of nginx, with the example for a server of this kind: one line differs."""
        user, groups, portal = self.SERVERS[kind]

        def answer(handler):
            who = re.search(r"who=(\w+)", handler.headers.get("Cookie", ""))
            if handler.path not in ("/api/authz/auth-request", "/oauth2/auth"):
                return 200, {"X-Seen": handler.path}
            if who is None:
                return 401, {"Location": portal} if portal else {}
            if who[1] == "banned":
                return 403, {}
            name = {"jose": "Jos\u00e9"}.get(who[1], who[1])
            # What http.server writes is Latin-1; the directory speaks UTF-8.
            return 202, {user: name.encode().decode("latin-1"), groups: self.PEOPLE[name]}

        with answering(answer=answer) as (address, self.asked):
            changes = {"127.0.0.1:9091": address}
            line = "proxy_pass http://127.0.0.1:9091/api/authz/auth-request;"
            if kind == "oauth2-proxy":
                changes = {line: "proxy_pass http://127.0.0.1:4180/oauth2/auth;"}
                changes["127.0.0.1:4180"] = address
            add_sign_in(tmp_path, "auth-request", changes)
            with behind_site(service.bind, tmp_path) as bind:
                yield bind

    def test_people_sign_in_by_their_directory(self, world, site, kind):
        """Whom the server does not know is led to it; whom it knows gets the first role."""
        away = send(site, "GET", PROXY)
        port = site.rpartition(":")[2]
        own = f"https://localhost:{port}/oauth2/sign_in?rd=/console/sign-in/proxy"
        assert (away.status, away.headers["Location"]) == (303, self.SERVERS[kind][2] or own)
        late = send(site, "POST", PROXY, headers={**SAME_ORIGIN, **dict.fromkeys(STATED, SECRET)})
        assert (late.status, b"did not say who you are" in late.body) == (401, True)
        if kind == "oauth2-proxy":
            seen = send(site, "GET", "/oauth2/sign_in?rd=x").headers["X-Seen"]
            assert seen == "/oauth2/sign_in?rd=x"
        for who, name, role in (
            ("Ann", "ann", Role.OPERATOR),
            ("jose", "jos\u00e9", Role.CLERK),
            ("many", "many", Role.CLERK),
        ):
            headers = {"Cookie": f"who={who}", "Remote-User": "eve", **dict.fromkeys(STATED, "x")}
            page = send(site, "GET", PROXY, headers=headers)
            assert f"<strong>{name}</strong>, with the role <strong>{role}" in page.body.decode()
            assert send(site, "POST", PROXY, headers={**headers, **SAME_ORIGIN}).status == 303
        for who, status, told in (
            ("eve", 403, "You are eve"),
            ("banned", 403, "The console is not open to you"),
            ("huge", 400, "A header is longer than 8,190 bytes"),
        ):
            for method in ("GET", "POST"):
                headers = {"Cookie": f"who={who}", **SAME_ORIGIN}
                answer = send(site, method, PROXY, headers=headers)
                assert (answer.status, told in answer.body.decode()) == (status, True)
        found = {each.name: each.role for each in list_sessions(world.engine)}
        assert found == {"ann": Role.OPERATOR, "jos\u00e9": Role.CLERK, "many": Role.CLERK}
        asked = self.asked.seen[0]
        assert asked["x-original-url"] == [f"https://localhost:{port}{PROXY}"]
        assert "x-verifyd-proxy-secret" not in asked

    @pytest.mark.system_long
    def test_other_pages_do_not_ask_it(self, site):
        """A session works while the authentication server is down, and so does the API."""
        for path in (ROOT, f"{ROOT}/look-up", "/healthz", "/v1/account"):
            send(site, "GET", path, headers={"Cookie": "who=Ann"})
        assert self.asked.seen == []


@pytest.mark.system_long
def test_without_the_server_nobody_comes_in(service, tmp_path):
    """The answer is a page of nginx, which says that it passes."""
    add_sign_in(tmp_path, "auth-request", {"127.0.0.1:9091": "127.0.0.1:1"})
    bind = f"127.0.0.1:{free_port()}"
    with running(command_with_site(service.bind, bind, tmp_path), bind):
        answer = send(f"tls:{bind}", "GET", PROXY)
    assert (answer.status, answer.media_type) == (503, "text/html")
    assert answer.headers["Retry-After"] == "2"
    assert b"<h1>You cannot sign in now</h1>" in answer.body


@pytest.mark.parametrize("example", EXAMPLES)
def test_its_refusals_are_pages_of_the_site(tmp_path, example):
    """What nginx refuses before it asks who somebody is has the site's page there, too."""
    add_sign_in(tmp_path, example)
    with behind_site("127.0.0.1:1", tmp_path) as site:
        answer = send(site, "POST", PROXY, body=b" " * 2_200_000)
    assert answer.status == 413
    assert b"<h1>The form is too long</h1>" in answer.body


@pytest.mark.parametrize("repeated", STATED)
def test_a_header_that_comes_twice_opens_nothing(service, repeated):
    """A proxy that adds to what a client sent would let clients choose (D189)."""
    stated = dict(zip(STATED, ("ann", "staff", SECRET), strict=True))
    fields = [*stated.items(), (repeated, "operators")]
    answers = []
    for sent in (fields[:3], fields, [fields[3], *fields[:3]]):
        with connected(service.bind) as connection:
            lines = "".join(f"{name}: {value}\r\n" for name, value in sent)
            connection.sendall(f"GET {PROXY} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
            answers.append(read_answer(connection))
    assert [each.status for each in answers] == [200, 401, 401]
    assert "The proxy sent a header twice." in answers[1].body.decode()


@pytest.mark.parametrize("setting", ["console_proxy_secret", "console_groups"])
def test_half_a_directory_stops_the_start(world, setting):
    """The command `check` and the start say which setting is missing; other commands work."""
    values = {"console_proxy_secret": SECRET, "console_groups": "staff=clerk"}
    settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}
    settings |= {setting: values[setting], "bind": f"127.0.0.1:{free_port()}"}
    for command in ("check", "serve"):
        ended = run_command(command, **settings)
        assert ended.returncode == 1
        assert f"must be set because VERIFYD_{setting.upper()} is" in ended.stdout + ended.stderr
    assert run_command("accounts", "list", **settings).returncode == 0
