"""Clients that occupy nginx: their maximum cost, and their maximum number."""

import errno
import json
import os
import re
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.system.client_tools import ran, require_jdk
from tests.system.http2 import Http2
from tests.system.nginx import pid_of, running
from tests.system.processes import (
    Answer,
    connected,
    descendants,
    free_port,
    read_answer,
    send,
    until,
)
from tests.system.scale_out import balanced
from tests.system.site import behind_site, command_with_site
from tests.system.slow_clients import (
    LONG_ANSWER,
    SlowClient,
    every_stream_over_http_2,
    hold,
    slow_body,
    slow_body_over_http_2,
    slow_header,
    slow_reader,
    slow_reader_over_http_2,
)

NOBODY = "127.0.0.1:1"
COST_BYTES_MAX = 100_000_000
# With less, the clients had gone before the measurement.
COST_BYTES_MIN = 5_000_000
PER_NETWORK, IN_ALL = 64, 1_200
BEGUN = b"POST / HTTP/1.1\r\nHost: x\r\n%sContent-Length: 9\r\n\r\n"
JAVA_PROGRAM = Path(__file__).parent / "http_clients" / "Http2Requests.java"
EXPECTING = b"Expect: 100-continue\r\n"


def before_one_host(upstream: str, directory: Path) -> AbstractContextManager[str]:
    """Run nginx with the configuration for a single host."""
    return behind_site(upstream, directory)


def before_several_hosts(upstream: str, directory: Path) -> AbstractContextManager[str]:
    """Run nginx with the configuration for several hosts, here one."""
    return balanced([upstream, upstream], directory)


EVERY_PROXY = pytest.mark.parametrize("before", [before_one_host, before_several_hosts])


def processes_of(directory: Path) -> list[int]:
    """Return the process ids of an nginx."""
    master = pid_of(directory)
    return [master, *descendants(master)]


def memory_bytes(directory: Path) -> int:
    """Return the memory of all processes of an nginx, counting shared memory once."""
    texts = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in processes_of(directory)]
    return 1024 * sum(int(re.findall(r"(?m)^Pss:\s+(\d+)", text)[0]) for text in texts)


@pytest.mark.system_long
@EVERY_PROXY
@pytest.mark.parametrize(
    "client",
    [slow_body, slow_header, slow_reader, slow_body_over_http_2, slow_reader_over_http_2],
)
def test_a_thousand_slow_clients_cost_less_than_100_mb(
    request, socket_directory, before, client: SlowClient
):
    """The clients have no key and 100 addresses; another client still gets its answer."""
    upstream = NOBODY
    if client in (slow_reader, slow_reader_over_http_2):
        upstream = request.getfixturevalue("served").bind
    with before(upstream, socket_directory) as bind, ExitStack() as stack:
        send(bind, "GET", "/healthz")
        former = memory_bytes(socket_directory)
        hold(stack, bind, client)
        if upstream != NOBODY:
            # One of them is answered after all of those.
            assert send(bind, "GET", LONG_ANSWER).status == 200
        cost = memory_bytes(socket_directory) - former
        assert send(bind, "GET", "/healthz").status != 429
    assert COST_BYTES_MIN < cost < COST_BYTES_MAX


@pytest.mark.system_long
@EVERY_PROXY
def test_sixty_clients_that_open_every_stream_cost_less_than_100_mb(
    served, socket_directory, before
):
    """They have no key and 60 addresses, and read nothing, not even that they are refused (D59)."""
    with before(served.bind, socket_directory) as bind, ExitStack() as stack:
        send(bind, "GET", "/healthz")
        former = memory_bytes(socket_directory)
        hold(stack, bind, every_stream_over_http_2, clients=60)
        cost = memory_bytes(socket_directory) - former
    assert COST_BYTES_MIN < cost < COST_BYTES_MAX


@pytest.mark.system_long
def test_a_hundred_slow_clients_cost_less_than_10_mb(socket_directory):
    """A tenth of the thousand that the long test holds; a body that is there costs something."""
    with behind_site(NOBODY, socket_directory) as bind, ExitStack() as stack:
        send(bind, "GET", "/healthz")
        former = memory_bytes(socket_directory)
        hold(stack, bind, slow_body, clients=100)
        cost = memory_bytes(socket_directory) - former
    assert COST_BYTES_MIN / 10 < cost < COST_BYTES_MAX / 10


class TestFiles:
    def held(self, directory: Path, folder: str) -> list[str]:
        """Return the files without a name that nginx has open below a directory."""
        links = []
        for pid in processes_of(directory):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # It was closed meanwhile.
                    links.append(os.readlink(link))
        # nginx removes the name right after it has opened the file.
        found = [link for link in links if link.startswith(str(directory / folder))]
        return [link for link in found if link.endswith(" (deleted)")]

    def require_no_names(self, directory: Path, folder: str) -> None:
        """Fail if a file below a directory has a name."""
        assert [path for path in (directory / folder).rglob("*") if path.is_file()] == []

    def test_a_long_body_is_in_a_file_without_a_name(self, tmp_path):
        """A bulk's registrations are in no named file, and are removed with the request."""
        with behind_site(NOBODY, tmp_path) as bind:
            with ExitStack() as stack:
                slow_body(stack, bind, "127.0.0.1")
                until(lambda: self.held(tmp_path, "body"), "nginx to write the body to a file")
                self.require_no_names(tmp_path, "body")
            until(lambda: not self.held(tmp_path, "body"), "nginx to close the file")

    def test_a_long_answer_is_in_a_file_without_a_name(self, served, tmp_path):
        """The rest of an answer to a slow reader is in such a file, and the worker is free."""
        with behind_site(served.bind, tmp_path) as bind, ExitStack() as stack:
            for _ in range(3):
                slow_reader(stack, bind, "127.0.0.1")
            until(lambda: len(self.held(tmp_path, "proxy")) == 3, "nginx to take all answers")
            self.require_no_names(tmp_path, "proxy")
            assert send(bind, "GET", "/healthz").status == 200

    def test_a_full_disk_refuses_long_bodies_only(self, served, little_disk):
        """Long bodies get 500 until there is space again; short ones do not need the disk."""
        key = {"X-API-Key": served.key, "Content-Type": "application/json"}

        def bulk(padding: int) -> Answer:
            body = json.dumps({"registrations": ["AB12CDE"]}) + " " * padding
            return send(bind, "POST", "/v1/vehicle/bulk-insurance", body=body, headers=key)

        def refusal() -> Answer | None:
            # nginx may have closed the connection before all of the body was sent.
            with suppress(ConnectionError):
                return bulk(900_000)
            return None

        with behind_site(served.bind, little_disk) as bind:
            filler = little_disk / "filler"
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                filler.write_bytes(bytes(4_000_000))
            answer = until(refusal, "an answer")
            assert answer is not None
            assert (answer.status, answer.json()["code"]) == (500, "internal_error")
            assert bulk(10_000).status == 200
            filler.unlink()
            assert bulk(900_000).status == 200


def begin(stack: ExitStack, bind: str, header: bytes = b"") -> None:
    """Begin a request, and wait until nginx has counted it and waits for its body."""
    connection = stack.enter_context(connected(bind))
    connection.sendall(BEGUN % (EXPECTING + header))
    assert connection.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"


def require_refused(answer: Answer) -> None:
    """Fail unless nginx refused a client because of too many clients."""
    assert answer.status == 429
    assert answer.json()["code"] == "too_many_connections"
    assert answer.headers["Retry-After"] == "1"


@pytest.mark.system_long
class TestHowMany:
    @EVERY_PROXY
    def test_an_address_has_so_many_connections(self, tmp_path, before):
        """Further requests get 429 with `Retry-After` before they are read."""
        with before(NOBODY, tmp_path) as bind, ExitStack() as stack:
            for _ in range(PER_NETWORK):
                begin(stack, bind)
            require_refused(send(bind, "GET", "/"))

    @EVERY_PROXY
    def test_streams_of_http_2_count(self, tmp_path, before):
        """Each stream counts like a connection, and one connection may have them all."""
        with before(NOBODY, tmp_path) as bind, Http2(bind) as client:
            assert client.streams_max == PER_NETWORK
            self.fill(client, PER_NETWORK)
            # Sent before nginx has counted them, a request would take the place of one.
            client.wait_until_read()
            require_refused(send(bind, "GET", "/"))

    @EVERY_PROXY
    def test_all_clients_together_have_so_many(self, tmp_path, before):
        """A new client is refused, too, with the reason."""
        with before(NOBODY, tmp_path) as bind, ExitStack() as stack:
            # Connections may be idle for 30 s; on a busy machine it takes seconds to open them all.
            sources = [f"127.0.1.{number + 1}" for number in range(IN_ALL // 60)]
            clients = [stack.enter_context(Http2(bind, source=source)) for source in sources]
            for client in clients:
                self.fill(client, 60)
            for client in clients:
                client.wait_until_read()
            require_refused(send(bind, "GET", "/"))

    def fill(self, client: Http2, streams: int) -> None:
        for _ in range(streams):
            client.request("POST", "/", body=b"", length=9)

    @pytest.mark.parametrize(
        ("network", "other"),
        [
            ("2001:db8:1:2:", "2001:db8:1:3:"),
            ("2001:db8:0:0:", "2001:db8:0:1:"),
            ("a0a:a0a:a0a:a0a:", "a0a:a0a:a0a:a0b:"),
        ],
        ids=["usual", "NUL", "line feed"],
    )
    def test_an_ipv6_network_counts_as_one(self, tmp_path, network, other):
        """All addresses of a /64 count as one client, as in the service (D10)."""
        # The test sends nginx the addresses: this machine has only one in IPv6.
        told = "set_real_ip_from 127.0.0.1;\nreal_ip_header X-Address;\n"
        with behind_site(NOBODY, tmp_path, before=told) as bind, ExitStack() as stack:
            for number in range(PER_NETWORK):
                header = f"X-Address: {network}a0a:{number:x}:0:a0a\r\n".encode()
                begin(stack, bind, header)
            inside = {"X-Address": f"{network}1:2:3:4"}
            require_refused(send(bind, "GET", "/", headers=inside))
            for address in (f"{other}a0a:1:0:a0a", "10.10.10.10"):
                assert send(bind, "GET", "/", headers={"X-Address": address}).status == 502


@pytest.mark.parametrize(
    ("begun", "setting"),
    [(b"GET / HT", "client_header_timeout"), (BEGUN % b"" + b"{", "client_body_timeout")],
    ids=["head", "body"],
)
def test_a_slow_client_is_let_go_when_its_time_is_over(tmp_path, begun, setting):
    """Without an answer; the log has 408. The long tests wait for the shipped ten seconds."""
    bind = f"127.0.0.1:{free_port()}"
    command = command_with_site(NOBODY, bind, tmp_path)
    text = (tmp_path / "site.conf").read_text()
    assert f"{setting} 10s;" in text
    (tmp_path / "site.conf").write_text(text.replace(f"{setting} 10s;", f"{setting} 300ms;"))
    with running(command, bind), connected(f"tls:{bind}") as connection:
        connection.sendall(begun)
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        assert logged(tmp_path) == [408]


def logged(directory: Path, count: int = 1) -> list[Any]:
    """Wait until nginx has logged so many requests; return their statuses."""
    log = directory / "verifyd.log"
    until(lambda: log.read_text().count("\n") == count, "nginx to log it")
    return [json.loads(line)["status"] for line in log.read_text().splitlines()]


@pytest.mark.system_long
class TestLettingGo:
    @EVERY_PROXY
    @pytest.mark.parametrize("begun", [b"GET / HT", BEGUN % b"" + b"{"], ids=["head", "body"])
    def test_a_slow_client_is_let_go(self, tmp_path, before, begun):
        """After ten seconds the connection ends without an answer, and 408 is logged."""
        with before(NOBODY, tmp_path) as bind, connected(bind) as connection:
            connection.sendall(begun)
            started = time.monotonic()
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
            assert 8 < time.monotonic() - started < 20
            assert logged(tmp_path) == [408]

    @EVERY_PROXY
    def test_a_slow_body_over_http_2_is_let_go(self, tmp_path, before):
        """Its stream is reset, and the connection serves others."""
        with before(NOBODY, tmp_path) as bind, Http2(bind) as client:
            started = time.monotonic()
            with pytest.raises(ConnectionResetError):
                client.answer(client.request("POST", "/", body=b"{", length=9))
            assert 8 < time.monotonic() - started < 20
            headers, _ = client.answer(client.request("GET", "/"))
            assert headers[":status"] == "502"
            assert sorted(logged(tmp_path, 2)) == [408, 502]

    @EVERY_PROXY
    def test_an_error_that_nobody_reads_is_let_go_sooner(self, tmp_path, before):
        """No limit counts refused requests, so they go after two seconds."""
        with before(NOBODY, tmp_path) as bind, Http2(bind, window=0) as client:
            started = time.monotonic()
            with pytest.raises(ConnectionResetError):
                client.answer(client.request("GET", "/"))
            assert time.monotonic() - started < 8


@EVERY_PROXY
def test_a_connection_takes_more_than_a_thousand_requests(tmp_path, before):
    """The end of an HTTP/2 connection breaks off requests of some clients, so it is rare."""
    with before(NOBODY, tmp_path) as bind, Http2(bind) as client:
        for _ in range(1_100):
            client.answer(client.request("HEAD", "/"))


@pytest.mark.system_long
@EVERY_PROXY
@pytest.mark.parametrize("threads", [24, 60])
def test_the_client_of_java_gets_every_answer(served, tmp_path, before, threads):
    """2,000 requests with the `HttpClient` of the JDK, which Spring uses by default."""
    require_jdk()
    with before(served.bind, tmp_path) as bind:
        keystore = "-keystore trusted -storepass changeit -noprompt".split()
        made = ran(["keytool", "-importcert", *keystore, "-file", "fullchain.pem"], tmp_path)
        assert made.returncode == 0, made.stderr
        trust = [f"-Djavax.net.ssl.trustStore{name}" for name in ("=trusted", "Password=changeit")]
        url = f"https://{bind.removeprefix('tls:')}/healthz"
        ended = ran(["java", *trust, JAVA_PROGRAM, url, threads, 2_000], tmp_path)
    assert Counter(ended.stdout.splitlines()) == {"HTTP_2 200": 2_000}, ended.stderr


@EVERY_PROXY
def test_a_header_too_long_for_http_2_is_logged_as_json(tmp_path, before):
    """The connection ends without an answer, and the log has the status 0."""
    with before(NOBODY, tmp_path) as bind:
        with Http2(bind) as client, pytest.raises(ConnectionResetError):
            client.answer(client.request("GET", "/" + "~" * 9_000))
        log = tmp_path / "verifyd.log"
        until(lambda: log.read_text().count("\n") == 1, "nginx to log it")
        assert json.loads(log.read_text())["status"] == 0


@EVERY_PROXY
def test_over_http_2_too_long_a_body_is_refused_in_json(tmp_path, before):
    """The declared length is enough, and nginx does not check its own answer again."""
    with before(NOBODY, tmp_path) as bind, Http2(bind) as client:
        headers, body = client.answer(client.request("POST", "/", body=b"{", length=9_000_000))
        assert (headers[":status"], headers["content-type"]) == ("413", "application/problem+json")
        assert json.loads(body)["code"] == "body_too_large"


NOT_HTTP, NO_HOST = "The request is not well-formed HTTP.", "The Host header is missing or invalid."
TOO_MANY, TOO_LONG = "The request has more than 64 headers.", "A header is longer than 8,190 bytes"
TOO_LONG_FOR_NGINX = f"{TOO_LONG}, or all headers together do not fit into 16 KB."
HEADERS = {
    "too many": (["Host: x", *["X: 1"] * 100], TOO_MANY, TOO_MANY),
    "too long": (["Host: x", "X: ".ljust(8_191, "a")], TOO_LONG_FOR_NGINX, f"{TOO_LONG}."),
    "the longest": (["Host: x", "X: ".ljust(8_190, "a")], "", ""),
    "too long together": (["Host: x", *["X: ".ljust(8_000, "a")] * 3], TOO_LONG_FOR_NGINX, ""),
    "no host": ([], NOT_HTTP, NO_HOST),
    "two hosts": (["Host: x"] * 2, NOT_HTTP, NOT_HTTP),
    "no valid host": (["Host: x/y"], NOT_HTTP, NO_HOST),
    "an address as host": (["Host: [::1]:443"], "", ""),
}


@EVERY_PROXY
def test_headers_have_the_same_rules_with_and_without_nginx(served, tmp_path, before):
    """A refusal names the limit; only nginx limits the sum, and does not say what Host lacks."""
    with before(served.bind, tmp_path) as bind:
        for name, (headers, *details) in HEADERS.items():
            for address, detail in zip((bind, served.bind), details, strict=True):
                # A client cannot choose what nginx says with the name of one of its errors.
                lines = ["GET /healthz?headers HTTP/1.1", *headers, "", ""]
                with connected(address) as connection:
                    connection.sendall("\r\n".join(lines).encode())
                    answer = read_answer(connection)
                problem = answer.json() if detail else {}
                assert answer.status == (400 if detail else 200), name
                assert problem.get("code") == ("invalid_request" if detail else None), name
                assert problem.get("detail", "") == detail, name
