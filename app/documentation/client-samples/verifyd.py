"""A small client of verifyd for Python 3.11 or newer. It needs only the standard library.

    from verifyd import Client

    client = Client()  # with the key in the environment variable KEY
    print(client.ask("GET", "/v1/vehicle/AB12CDE/insurance"))

A request is sent again:

- after 429, 503 and a refused connection. The service has done nothing.
- after 500, 502, 504, a time-out and a broken connection, unless it creates a domain. The service
  may have done it. `ask(..., repeat=True)` sends that again, too: then take the error
  `domain_already_exists` as success.

The client waits as long as `Retry-After` says, and 0.25 to 0.5 seconds at random. The random time
doubles with each try, up to 8 seconds. The client gives up after `tries` tries, or if the next one
would begin more than `patience` seconds after the first. It follows no redirects, which would take
the key elsewhere.
"""

import json
import os
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.utils import formatdate, parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import HTTPErrorProcessor, Request, build_opener

URL = "http://127.0.0.1:8000"
INSURANCE = "/v1/vehicle/bulk-insurance"
COMPLIANCE = "/v1/compliance/bulk"
_BROKEN = (ConnectionError, TimeoutError, HTTPException)


class Problem(Exception):
    """A request that failed. Decide by `code`; the text is for people.

    Attributes:
        code: that of the service, such as `vehicle_not_found`; `no_answer` if the connection
            failed; `unexpected_answer` if the answer is not from the service, but from a proxy.
        status: the HTTP status, or None without an answer.
        request_id: what to quote when you ask the operator, or None.
        errors: what is wrong in the body: dicts with `pointer` and `detail`.
        retry_after: the seconds that the answer asks to wait, or 0.
        is_temporary: whether the same request may succeed later.
        maybe_done: whether the service may have done what the request says.
    """

    def __init__(self, code: str, detail: str, status: int | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.status = status
        self.request_id: str | None = None
        self.errors: list[dict[str, Any]] = []
        self.retry_after = 0.0
        self.is_temporary = status in (429, 500, 502, 503, 504)
        self.maybe_done = status is None or not (400 <= status < 500 or status == 503)


def _key() -> str:
    """Return the key in the environment."""
    key = os.environ.get("KEY")
    if not key:
        raise ValueError("KEY is not set. Run: export KEY=vfd_...")
    return key


@dataclass
class Client:
    """Sends requests with one key. Threads can share it."""

    key: str = field(default_factory=_key, repr=False)
    url: str = URL
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every request, such as `Enquiry-Reason`."""
    timeout: float = 30
    """The seconds of silence after which a try fails."""
    tries: int = 6
    """How many times a request is sent at most."""
    patience: float = 60
    """The seconds after the first try within which the last one begins."""

    def ask(self, method: str, path: str, body: Any = None, *, repeat: bool | None = None) -> Any:
        """Return the answer, or None if it is empty; raise Problem if the request failed.

        The path has the query, such as `/api/domains?limit=10`. The body is sent as JSON. With
        `repeat` the request is sent again although the service may have done what it says. That is
        the default, except to create a domain.
        """
        if repeat is None:
            repeat = (method, path) != ("POST", "/api/domains")
        last_start = time.monotonic() + self.patience
        number = 0
        while True:
            number += 1
            try:
                return self._send(method, path, body)
            except Problem as problem:
                pause = problem.retry_after + min(8, 2**number / 4) * random.uniform(0.5, 1)
                is_over = number >= self.tries or time.monotonic() + pause > last_start
                if is_over or not problem.is_temporary or (problem.maybe_done and not repeat):
                    raise
            time.sleep(pause)

    def pages(self, limit: int = 100, status: str | None = None) -> Iterator[list[dict[str, Any]]]:
        """Yield the domains of the account by name, in lists of at most `limit`."""
        query: dict[str, object] = {"limit": limit} | ({"status": status} if status else {})
        while True:
            page = self.ask("GET", f"/api/domains?{urlencode(query)}")
            yield page["domains"]
            if page["next"] is None:
                return
            query["after"] = page["next"]

    def check_all(
        self, plates: Iterable[str], path: str = INSURANCE, **members: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield an item for each plate, in the same order, from as many requests as it takes.

        The path is `INSURANCE` or `COMPLIANCE`. The requests have more members, such as
        `asOf="2026-12-31"`.
        """
        rest = iter(plates)
        bulk_max = self.ask("GET", "/v1/account")["plan"]["bulkMax"]
        while part := list(islice(rest, bulk_max)):
            yield from self.ask("POST", path, {"registrations": part, **members})["results"]

    def _send(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        url = self.url.rstrip("/") + quote(path, safe="/?&=%:,+~")
        headers = {"X-API-Key": self.key.strip(), "Content-Type": "application/json"}
        request = Request(url, data, headers | self.headers, method=method)
        try:
            with _OPENER.open(request, timeout=self.timeout) as answer:
                return _value(answer, answer.read())
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            problem = Problem("no_answer", f"{type(reason).__name__}: {reason}")
            problem.is_temporary = isinstance(reason, _BROKEN)
            problem.maybe_done = not isinstance(reason, ConnectionRefusedError)
            raise problem from error


def _value(answer: HTTPResponse, body: bytes) -> Any:
    """Return the value of an answer; raise Problem if it is none."""
    status, headers = answer.status, answer.headers
    if status == 204:
        return None
    said = _object(body)
    if status in (200, 201) and said:
        return said
    if status >= 400 and isinstance(said.get("code"), str):
        problem = Problem(said["code"], str(said.get("detail")), status)
        problem.errors = said.get("errors", [])
    else:
        detail = f"status {status}, {headers.get('Content-Type')}, {body[:100]!r}"
        problem = Problem("unexpected_answer", detail, status)
    problem.request_id = said.get("request_id") or headers.get("X-Request-ID")
    problem.retry_after = _seconds_to_wait(headers)
    raise problem


def _object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; an empty one if it is something else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _seconds_to_wait(headers: Message) -> float:
    """Return the seconds that `Retry-After` names, as a number or a date; otherwise 0."""
    told = headers.get("Retry-After", "").strip()
    if told.isdecimal():
        return float(told)
    try:
        # By the clock of the service, because this machine's may be wrong.
        now = parsedate_to_datetime(headers.get("Date") or formatdate(usegmt=True))
        return max(0.0, (parsedate_to_datetime(told) - now).total_seconds())
    except (TypeError, ValueError):
        return 0.0


class _EveryStatus(HTTPErrorProcessor):
    """Returns an answer of any status as it is, also redirects and errors."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:
        return response

    https_response = http_response


_OPENER = build_opener(_EveryStatus)
