"""A small client of verifyd for Python 3.11 or newer. It needs only the standard library.

    from verifyd import Client, verdict

    client = Client()  # with the key in the environment variable KEY
    answer = client.ask("GET", "/v1/vehicle/AB12CDE/insurance")
    print(verdict(answer, "insured"))  # None if no register knows it

After 429, 503 and a refused connection, a request is sent again. After 500, 502, 504,
`database_unavailable`, a time-out and a broken connection the service may have done it: then all
but creating a domain is sent again. `ask(..., repeat=True)` repeats that, too; then
`domain_already_exists` is a success. It waits `Retry-After` seconds and a random 0.25 to 0.5, which
double with each try, up to 8. It gives up after `tries` tries, or if the next would begin more than
`patience` seconds after the first. It follows no redirects: they could get the key.
"""

import json
import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.message import Message
from email.utils import formatdate, parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import HTTPErrorProcessor, Request, build_opener

SERVICE = "http://127.0.0.1:8000"
INSURANCE = "/v1/vehicle/bulk-insurance"
COMPLIANCE = "/v1/compliance/bulk"


class Problem(Exception):
    """A request that failed. Decide by `code`; `detail` is for people.

    Attributes:
        code: that of the service; `no_answer` without one, or `unexpected_answer` from a proxy.
        status: the HTTP status, or None without an answer.
        request_id: what to quote when you ask the operator, or None.
        errors: what is wrong in the body: dicts with `pointer` and `detail`.
        suggestions: known vehicles that look alike: dicts, with `vehicle_not_found`.
        retry_after: the seconds that the answer asks to wait, or 0.
        is_temporary: whether the same request may succeed later.
        maybe_done: whether the service may have done what the request says.
    """

    def __init__(self, code: str, detail: str, status: int | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail, self.status = code, detail, status
        self.request_id: str | None = None
        self.errors: list[dict[str, Any]] = []
        self.suggestions: list[dict[str, Any]] = []
        self.retry_after = 0.0
        self.is_temporary = status in (429, 500, 502, 503, 504)
        self.maybe_done = status not in (*range(400, 500), 503) or code == "database_unavailable"


def verdict(answer: Mapping[str, Any], name: str) -> bool | None:
    """Return what an answer, an item or a period says; None if no register knows it.

    Names are such as `insured`, `compliant`, `motValid` and `validThroughout`. An item with `error`
    says nothing, and neither does an answer without this member.
    """
    if name in answer.get("unknown", ()) or "error" in answer:
        return None
    said: bool | None = {**answer.get("checks", {}), **answer}.get(name)
    return said


@dataclass
class Client:
    """Sends requests with one key. Threads can share it."""

    key: str = field(default_factory=lambda: os.environ.get("KEY", ""), repr=False)
    url: str = SERVICE
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every request, such as `Enquiry-Reason`."""
    timeout: float = 30
    """The seconds of silence after which a try fails."""
    tries: int = 6
    """How many times a request is sent at most."""
    patience: float = 60
    """The seconds after the first try within which the last one begins."""

    def __post_init__(self) -> None:
        if not self.key:
            raise ValueError("KEY is not set. Run: export KEY=vfd_...")

    def ask(self, method: str, path: str, body: Any = None, *, repeat: bool | None = None) -> Any:
        """Return the answer, or None if it is empty; raise Problem if the request failed.

        The path has the query, such as `/api/domains?limit=10`. The body is sent as JSON. `repeat`
        sends again what may have been done; that is the default, except to create a domain.
        """
        if repeat is None:
            repeat = (method, path) != ("POST", "/api/domains")
        number, last_start = 0, time.monotonic() + self.patience
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

        The path is `INSURANCE` or `COMPLIANCE`; members are such as `asOf="2026-12-31"`,
        or `**{"from": "2026-12-01", "to": "2026-12-31"}`, because `from` is a keyword.
        """
        rest = iter(plates)
        bulk_max = self.ask("GET", "/v1/account")["plan"]["bulkMax"]
        while part := list(islice(rest, bulk_max)):
            yield from self.ask("POST", path, {"registrations": part, **members})["results"]

    def events(self, after: str | None = None, pause: float = 600) -> Iterator[dict[str, Any]]:
        """Yield the events of the account's watches for ever: those after an event, then new ones.

        Keep the `id` of the event that you handled last, and begin with it next time. The client
        asks again after the next sweep, or after `pause` seconds, and a little later.
        """
        while True:
            page = self.ask("GET", f"/v1/events?after={after}" if after else "/v1/events")
            yield from page["events"]
            after = page["next"]
            if not page["hasMore"]:
                left = datetime.fromisoformat(page["nextSweep"]).timestamp() - time.time()
                time.sleep(min(pause, max(0, left)) + pause * random.uniform(0.05, 0.15))

    def _send(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        url = self.url.rstrip("/") + quote(path, safe="/?&=%:,+~")
        headers = {"X-API-Key": self.key.strip(), "Content-Type": "application/json"}
        request = Request(url, data, headers | self.headers, method=method)
        try:
            with _OPENER.open(request, timeout=self.timeout) as answer:
                return _value(answer, answer.read())
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            problem = Problem("no_answer", f"{type(cause).__name__}: {cause}")
            problem.is_temporary = isinstance(cause, ConnectionError | TimeoutError | HTTPException)
            problem.maybe_done = not isinstance(cause, ConnectionRefusedError)
            raise problem from error


def _value(answer: HTTPResponse, body: bytes) -> Any:
    """Return the value of an answer; raise Problem if it is none."""
    status, headers, said = answer.status, answer.headers, _object(body)
    if status == 204 or (status in (200, 201) and said):
        return said or None
    if status >= 400 and isinstance(said.get("code"), str):
        problem = Problem(said["code"], str(said.get("detail")), status)
        problem.errors, problem.suggestions = said.get("errors", []), said.get("suggestions", [])
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
