"""The shipped nginx configuration for several hosts: its routing and its own answers."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from app.accounts.administration import create_account, create_key, rotate_key, set_plan
from app.accounts.tokens import Token
from app.serve.limits.bucket import rate
from tests.system.flood import Flood, require_exact
from tests.system.postgres_pair import primary_alone, url_of
from tests.system.processes import Service, connected, free_port, read_answer, send, until
from tests.system.scale_out import HOUR_SECONDS, Installation, balanced, command_before, installed

# Enough that both hosts get some by chance.
ACCOUNTS = tuple(f"account-{number}" for number in range(24))
LISTED = ACCOUNTS[0]


@pytest.fixture(scope="module")
def installation(tmp_path_factory) -> Iterator[Installation]:
    """Two hosts behind nginx, on one Postgres."""
    with (
        primary_alone() as primary,
        installed(
            tmp_path_factory.mktemp("hosts"), url_of(primary), metrics_accounts=LISTED
        ) as installation,
    ):
        yield installation


@pytest.fixture(scope="module")
def keys(installation) -> dict[str, Token]:
    """A key of each of several accounts."""
    limits = {"requests": 600, "window_seconds": 60, "bulk_max": 1, "domains_max": 1}
    set_plan(installation.engine, "trial", limits, sandbox="on")
    for number, account in enumerate(ACCOUNTS):
        # Every third account is a sandbox, whose keys have another prefix.
        create_account(installation.engine, account, "trial" if number % 3 == 1 else "standard")
    return {account: create_key(installation.engine, account)[1] for account in ACCOUNTS}


def test_it_is_well_formed(tmp_path):
    """`nginx -t` accepts it without a warning."""
    bind = f"127.0.0.1:{free_port()}"
    command = command_before(["127.0.0.1:1", "127.0.0.1:2"], bind, tmp_path)
    ended = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "[warn]" not in ended.stderr


@pytest.mark.system_long
class TestWhichHost:
    def host_of(self, installation: Installation, **headers: str) -> Service:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        answer = send(installation.bind, "GET", "/api/domains", headers=named)
        assert answer.status == 200
        return installation.host_of(answer.headers["X-Request-ID"])

    def test_both_headers_lead_to_the_same_host(self, installation, keys):
        """An account has one host for both headers; different accounts use different hosts."""
        used = set()
        for token in keys.values():
            key = token.text
            found = {
                self.host_of(installation, Authorization=f"Bearer {key}"),
                self.host_of(installation, Authorization=f"bEARER  {key}"),
                self.host_of(installation, X_API_Key=key),
                self.host_of(installation, X_API_Key=key, Authorization=f"Bearer {key}"),
            }
            assert len(found) == 1
            used |= found
        assert used == set(installation.hosts)

    def test_all_keys_of_an_account_lead_to_the_same_host(self, installation, keys):
        """A second key, and both keys during a rotation, lead to the same host."""
        for account, old in list(keys.items())[:6]:
            second = create_key(installation.engine, account)[1]
            successor = rotate_key(installation.engine, old.key_id)[1]
            texts = {token.text for token in (old, second, successor)}
            assert len(texts) == 3
            assert len({self.host_of(installation, X_API_Key=key) for key in texts}) == 1

    def test_a_client_without_a_key_has_one_host(self, installation):
        """Only one host charges its address."""
        answers = [send(installation.bind, "GET", "/api/domains") for _ in range(6)]
        assert {answer.status for answer in answers} == {401}
        left = [int(answer.headers["X-RateLimit-Remaining"]) for answer in answers]
        assert left == sorted(left, reverse=True)
        assert len(set(left)) == len(left)
        assert len({installation.host_of(a.headers["X-Request-ID"]) for a in answers}) == 1


@pytest.mark.system_long
@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        pytest.param(100, 300, id="short"),
        pytest.param(1_000, 5_000, id="long", marks=pytest.mark.system_long),
    ],
)
def test_a_plan_admits_exactly_its_requests(installation, limit, sent):
    """Eight clients on two hosts get exactly the plan's number of requests."""
    flood = Flood([installation.bind], installation.key_of(f"flood-{limit}", requests=limit))
    flood.send(sent)
    assert flood.lost == 0
    require_exact(flood, rate(limit, HOUR_SECONDS))


@pytest.mark.system_long
class TestItsOwnAnswers:
    def require_problem(self, answer, status: int, code: str) -> None:
        assert (answer.status, answer.media_type) == (status, "application/problem+json")
        problem = answer.json()
        assert (problem["status"], problem["code"]) == (status, code)
        assert problem["request_id"] == answer.headers["X-Request-ID"]
        assert problem.keys() == {"type", "title", "status", "detail", "code", "request_id"}
        assert answer.headers["Cache-Control"] == "no-store"
        assert ("Retry-After" in answer.headers) == (status in (502, 503, 504))
        assert ("Allow" in answer.headers) == (status == 405)
        self.require_browsers_told(answer)

    def require_browsers_told(self, answer) -> None:
        assert answer.headers.get_all("Strict-Transport-Security") == ["max-age=31536000"]
        assert answer.headers.get_all("X-Content-Type-Options") == ["nosniff"]

    @pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json"])
    def test_documents_are_kept_until_they_change(self, installation, path):
        """A client that has a document gets 304, from whichever host."""
        answer = send(installation.bind, "GET", path)
        held = {"If-None-Match": answer.headers["ETag"], "Accept-Encoding": "gzip"}
        for _ in range(3):
            assert send(installation.bind, "GET", path, headers=held).status == 304

    @pytest.mark.parametrize("path", ["/api/domains", "/docs", "/openapi.json"])
    def test_answers_have_headers_for_tls_and_types(self, installation, path):
        """The application's answers have the headers for TLS and media types."""
        self.require_browsers_told(send(installation.bind, "GET", path))

    def test_the_document_names_its_address(self, installation):
        """The server in the document is the address of nginx, not that of a host."""
        (server,) = send(installation.bind, "GET", "/openapi.json").json()["servers"]
        assert server["url"] == f"https://localhost:{installation.bind.rpartition(':')[2]}"

    def test_below_the_console_they_are_pages(self, installation):
        """A person in a browser reads what is wrong; whoever asks the API gets JSON."""
        for path, media_type in (("/console", "text/html"), ("/v1", "application/problem+json")):
            answer = send(installation.bind, "POST", path, body=b" " * (2 * 1024 * 1024 + 1))
            assert (answer.status, answer.media_type) == (413, media_type)
            self.require_browsers_told(answer)

    def test_its_internal_path_is_not_found(self, installation):
        """The path where nginx keeps its problem body does not exist for clients."""
        self.require_problem(send(installation.bind, "GET", "/problem"), 404, "not_found")

    @pytest.mark.parametrize(
        "path",
        [
            *("/api/domains", "/api/domains/a.example", "/v1/vehicle/bulk-insurance"),
            *("/v1/compliance/AB12CDE", "/v1/compliance/bulk", "/v1/account", "/v1/usage"),
            *("/v1/watches", "/v1/watches/AB12CDE", "/v1/watches/bulk", "/v1/events"),
        ],
    )
    def test_the_405_to_trace_has_allow(self, installation, keys, path):
        """Nginx's 405 has the same `Allow` as the application's."""
        key = {"X-API-Key": keys[ACCOUNTS[0]].text}
        expected = send(installation.bind, "PATCH", path, headers=key).headers["Allow"]
        assert send(installation.bind, "TRACE", path).headers["Allow"] == expected

    @pytest.mark.parametrize("length", [8_177, 8_178, 9_000])
    def test_a_path_that_is_too_long_gets_one_answer(self, installation, length):
        """Nginx and the application have the same limit, and the same answer above it."""
        path = "/" + "a" * (length - 1)
        told = []
        for bind in (installation.bind, installation.hosts[0].bind):
            answer = send(bind, "GET", path)
            problem = answer.json()
            assert problem.pop("request_id") == answer.headers["X-Request-ID"]
            told.append((answer.status, problem))
        assert told[0] == told[1]
        assert told[0][0] == (401 if length == 8_177 else 414)

    def test_the_application_refuses_a_body_of_more_than_1_mib(self, installation, keys):
        """Its 413 has the headers of the limit."""
        answer = self.sent(installation, keys, 2 * 1024 * 1024)
        assert (answer.status, answer.json()["code"]) == (413, "body_too_large")
        assert "X-RateLimit-Remaining" in answer.headers

    def test_nginx_refuses_a_body_of_more_than_2_mib(self, installation, keys):
        """Nginx answers with the common error body."""
        answer = self.sent(installation, keys, 2 * 1024 * 1024 + 1)
        self.require_problem(answer, 413, "body_too_large")
        assert "X-RateLimit-Remaining" not in answer.headers

    def sent(self, installation, keys, size):
        headers = {"X-API-Key": keys[ACCOUNTS[0]].text, "Content-Type": "application/json"}
        path = "/v1/vehicle/bulk-insurance"
        return send(installation.bind, "POST", path, body=b" " * size, headers=headers)

    @pytest.mark.parametrize(
        ("request_text", "status", "code"),
        [
            pytest.param("GET / HTTP/1.1\r\n\r\n", 400, "invalid_request", id="no host"),
            pytest.param("nonsense\r\n\r\n", 400, "invalid_request", id="no HTTP"),
            pytest.param(
                f"GET / HTTP/1.1\r\nHost: x\r\nX: {'y' * 9_000}\r\n\r\n",
                400,
                "invalid_request",
                id="large header",
            ),
            pytest.param(
                f"GET /{'y' * 9_000} HTTP/1.1\r\nHost: x\r\n\r\n",
                414,
                "uri_too_long",
                id="long path",
            ),
            pytest.param(
                "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 405, "method_not_allowed", id="TRACE"
            ),
            pytest.param(
                "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zip\r\n\r\n",
                501,
                "invalid_request",
                id="unknown encoding",
            ),
            pytest.param("GET / HTTP/9.0\r\n\r\n", 505, "invalid_request", id="HTTP/9"),
            pytest.param(
                "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not_found", id="metrics"
            ),
        ],
    )
    def test_nginxs_refusals_have_the_common_error_body(
        self, installation, request_text, status, code
    ):
        """Whatever nginx itself refuses has the shape of the application's refusals."""
        with connected(installation.bind) as connection:
            connection.sendall(request_text.encode())
            self.require_problem(read_answer(connection), status, code)

    def test_each_host_has_metrics_of_its_own(self, installation, keys):
        """Each host has its own path of metrics, for keys of listed accounts (D80)."""
        assert send(installation.bind, "GET", "/metrics/10.0.0.11").status == 401
        for number, host in enumerate(installation.hosts, 1):
            path = f"/metrics/10.0.0.1{number}"
            for account, status in ((LISTED, 200), (ACCOUNTS[1], 403)):
                key = {"X-API-Key": keys[account].text}
                answer = send(installation.bind, "GET", path, headers=key)
                assert answer.status == status
                assert installation.host_of(answer.headers["X-Request-ID"]) is host

    def test_plain_http_is_refused(self, installation):
        """A key sent without TLS is not redirected, because it must not go unnoticed."""
        answer = send(installation.bind.removeprefix("tls:"), "GET", "/api/domains")
        self.require_problem(answer, 400, "invalid_request")
        assert "https only" in answer.json()["detail"]

    def test_no_host_is_502(self, tmp_path):
        """If every host is down, clients are asked to retry."""
        nobody = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        with balanced(nobody, tmp_path) as bind:
            for method in ("GET", "POST"):
                answer = send(bind, method, "/api/domains")
                self.require_problem(answer, 502, "service_unavailable")


@pytest.mark.system_long
class TestLogs:
    PATH = "/v1/compliance/SECRET1?asOf=2026-01-01"

    def test_they_hold_no_key_and_no_registration(self, installation, keys, tmp_path):
        """Neither answered nor refused nor undelivered requests are quoted."""
        key = keys[ACCOUNTS[0]].text
        headers = {"Authorization": f"Bearer {key}", "X-API-Key": key}
        nobody = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        with balanced(nobody, tmp_path) as without_hosts:
            for bind, directory in (
                (installation.bind, installation.directory),
                (without_hosts, tmp_path),
            ):
                for method, name in (("GET", "GET"), ("TRACE", "TRACE"), ("SECRET", "(other)")):
                    answer = send(bind, method, self.PATH, headers=headers)
                    told = self.logged(directory, answer)
                    assert (told["method"], told["status"]) == (name, answer.status)
                logs = [directory / "nginx.error", *directory.glob("*.log")]
                texts = [log.read_text() for log in logs]
                assert len(texts) == 3
                assert not any(word in text for text in texts for word in (key, "SECRET"))

    def test_they_name_the_host(self, installation, keys):
        """Each line has the host that answered, and the request id that the client has."""
        headers = {"X-API-Key": keys[ACCOUNTS[0]].text}
        answer = send(installation.bind, "GET", "/api/domains", headers=headers)
        host = installation.host_of(answer.headers["X-Request-ID"])
        assert self.logged(installation.directory, answer)["host"] == host.bind

    def logged(self, directory, answer):
        """Return the line of nginx's access log about a request, which may be late."""

        def lines():
            told = map(json.loads, (directory / "verifyd.log").read_text().splitlines())
            request_id = answer.headers["X-Request-ID"]
            return [line for line in told if line["request_id"] == request_id]

        (line,) = until(lines, "the request to be logged")
        return line
