"""Refusals of large requests reach every client, directly and through nginx (D5)."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.system.nginx import nginx_before
from tests.system.processes import Service, send

MEGABYTE = 1_000_000
CLIENTS = 50
DOMAINS, COMPLIANCE = "/api/domains", "/v1/compliance/AB12CDE"
Case = tuple[str, int, bool, int, str]
REFUSALS: list[Case] = [
    (DOMAINS, MEGABYTE, False, 401, "unauthorized"),
    ("/v1/nowhere", MEGABYTE, True, 404, "not_found"),
    (COMPLIANCE, MEGABYTE, True, 405, "method_not_allowed"),
    (DOMAINS, MEGABYTE * 3 // 2, True, 413, "body_too_large"),
]


@pytest.fixture(params=[pytest.param("directly", marks=pytest.mark.system_long), "through nginx"])
def service(request, serve, socket_directory):
    """A service, and the address of the server or of nginx."""
    if request.param == "directly":
        service = serve(anonymous_limit=CLIENTS)
        yield service, service.bind
    else:
        service = serve(bind=f"unix:{socket_directory}/socket", anonymous_limit=CLIENTS)
        with nginx_before(service.bind, socket_directory) as bind:
            yield service, bind


def test_large_posts_get_their_refusals(service):
    """The body is read first, so that all of many clients get status and body."""
    running, bind = service
    for case in REFUSALS:
        require_refused(running, bind, case)


def require_refused(service: Service, bind: str, case: Case) -> None:
    """Fail unless all of many clients get the same refusal."""
    path, size, has_key, status, code = case
    headers = {"Content-Type": "application/json"}
    if has_key:
        headers["X-API-Key"] = service.key
    body = b'"' + b"x" * (size - 2) + b'"'

    def told(_client: int) -> tuple[int, str]:
        answer = send(bind, "POST", path, body=body, headers=headers)
        return answer.status, answer.json()["code"]

    with ThreadPoolExecutor(8) as clients:
        assert Counter(clients.map(told, range(CLIENTS))) == {(status, code): CLIENTS}
