"""The client libraries in Python and TypeScript do the same with answers of every kind (D177)."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from app.documentation.reference import LIBRARIES, PACKAGED_URL, client_library
from tests.rows import each_row
from tests.system.client_tools import python_tools
from tests.system.processes import free_port
from tests.system.scripted import CLOSED, HTML, RESET, SILENT, Request, Scripted, Step, answer

PROGRAMS = Path(__file__).parent / "libraries"
LOOK_UP = ("GET", "/v1/vehicle/AB12CDE/insurance")
CREATE = ("POST", "/api/domains", {"name": "example.com"})
SECONDS_MAX = 10
FINE = {"status": "fine"}
OK = answer(200, FINE)
CREATED = answer(201, FINE)
PROBLEM = {"code": "rate_limit_exceeded", "detail": "Slow down", "request_id": "r1"}
PAGE = {"hasMore": False, "nextSweep": "2020-01-01T00:03:00Z"}
TRUNCATED = OK[:-3]
GARBAGE = b"SSH-2.0-OpenSSH_9.2\r\n"
UNKNOWN_OUTCOMES: dict[str, Step] = {
    "500": answer(500, {"code": "internal_error", "detail": "Failed"}),
    "502": answer(502, HTML),
    "504": answer(504, HTML),
    "503 of the database": answer(503, {"code": "database_unavailable", "detail": "Lost"}),
    "closed": CLOSED,
    "reset": RESET,
    "silent": SILENT,
    "truncated": TRUNCATED,
    "garbage": GARBAGE,
}
"""What a service that has done what it was asked for may have answered, too."""


def later(seconds: int, now: int = 4_000_000_000) -> dict[str, str]:
    """Return a `Retry-After` with a date, and the clock of the service, which is years ahead."""
    return {
        "Date": formatdate(now, usegmt=True),
        "Retry_After": formatdate(now + seconds, usegmt=True),
    }


class Case(NamedTuple):
    """A call, what the server does with its requests, and what comes of it."""

    name: str
    script: Sequence[Step]
    wanted: Mapping[str, object]
    """Of the value or of the problem, these members."""
    method: str = "ask"
    arguments: Sequence[object] = LOOK_UP
    further: Mapping[str, object] = {}
    options: Mapping[str, object] = {}
    waits: float = 0
    """The least seconds that the call takes."""


def value(of: object = FINE) -> dict[str, object]:
    """Return the outcome of a call that succeeds."""
    return {"value": of}


CASES = [
    Case(
        "fine",
        [OK],
        value(),
    ),
    *(
        Case(f"{name} is repeated", [step, OK], value(), waits=0.25)
        for name, step in UNKNOWN_OUTCOMES.items()
    ),
    Case("503 with HTML", [answer(503, HTML), OK], value(), waits=0.25),
    Case("503 with a number", [answer(503, HTML, Retry_After="1"), OK], value(), waits=1.25),
    Case("503 with a date", [answer(503, HTML, **later(1)), OK], value(), waits=1.25),
    Case("429 with a number", [answer(429, PROBLEM, Retry_After="1"), OK], value(), waits=1.25),
    Case("429 with a date", [answer(429, PROBLEM, **later(1)), OK], value(), waits=1.25),
    Case("429 with a past date", [answer(429, PROBLEM, **later(-9)), OK], value(), waits=0.25),
    *(
        Case(
            f"429 with {text!r}",
            [answer(429, PROBLEM, Retry_After=text), OK],
            value(),
            waits=0.25,
        )
        for text in ("", "soon", "-3600", "1e9", "NaN", "0")
    ),
    *(
        Case(
            f"too long: {name}",
            [answer(429, PROBLEM, **headers)],
            {"code": "rate_limit_exceeded", "status": 429, "retry_after": seconds},
        )
        for name, seconds, headers in (
            ("number", 3600, {"Retry_After": "3600"}),
            ("date", 3600, later(3600)),
        )
    ),
    Case(
        "too many tries",
        [answer(502, HTML)] * 3,
        {"code": "unexpected_answer", "status": 502, "is_temporary": True, "maybe_done": True},
        options={"tries": 3},
        waits=0.75,
    ),
    Case(
        "one try",
        [answer(503, HTML)],
        {"status": 503, "maybe_done": False},
        options={"tries": 1},
    ),
    Case(
        "no patience",
        [answer(502, HTML)],
        {"status": 502},
        options={"patience": 0.1},
    ),
    *(
        Case(
            f"200 with {name}",
            [answer(200, body, X_Request_ID="p1")],
            {"code": "unexpected_answer", "status": 200, "request_id": "p1", "is_temporary": False},
        )
        for name, body in (
            ("HTML", HTML),
            ("nothing", b""),
            ("a list", []),
            ("null", None),
            ("a text", "fine"),
            ("half an object", b'{"status": "fi'),
            ("no UTF-8", b"\xff\xfe\xfd"),
            ("deep lists", b"[" * 100_000),
        )
    ),
    Case(
        "404 with HTML",
        [answer(404, HTML)],
        {"code": "unexpected_answer", "status": 404, "maybe_done": False, "errors": []},
    ),
    Case(
        "404 of another service",
        [answer(404, {"code": 404, "errors": "none"})],
        {"code": "unexpected_answer", "status": 404, "errors": []},
    ),
    Case(
        "400 of the service",
        [
            answer(
                400,
                {
                    "code": "invalid_body",
                    "detail": "Wrong",
                    "request_id": "r2",
                    "errors": [{"pointer": "/a", "detail": "No"}],
                },
            )
        ],
        {
            "code": "invalid_body",
            "status": 400,
            "request_id": "r2",
            "errors": [{"pointer": "/a", "detail": "No"}],
            "is_temporary": False,
            "maybe_done": False,
            "detail": "Wrong",
            "suggestions": [],
            "text": "invalid_body: Wrong",
        },
    ),
    Case(
        "404 with suggestions",
        [answer(404, PROBLEM | {"suggestions": [{"registration": "AB12CDE"}]})],
        {"status": 404, "errors": [], "suggestions": [{"registration": "AB12CDE"}]},
    ),
    Case(
        "a redirect",
        [answer(302, HTML, Location="/elsewhere")],
        {"code": "unexpected_answer", "status": 302},
    ),
    *(
        Case(
            f"creation, {name}",
            [step],
            {"maybe_done": True, "is_temporary": True},
            arguments=CREATE,
        )
        for name, step in UNKNOWN_OUTCOMES.items()
    ),
    Case(
        "creation, 201 with HTML",
        [answer(201, HTML)],
        {"code": "unexpected_answer", "status": 201, "maybe_done": True},
        arguments=CREATE,
    ),
    Case("creation, 503", [answer(503, HTML), CREATED], value(), arguments=CREATE),
    Case("creation, 429", [answer(429, PROBLEM), CREATED], value(), arguments=CREATE),
    Case(
        "creation, 502, repeated",
        [answer(502, HTML), CREATED],
        value(),
        arguments=CREATE,
        further={"repeat": True},
    ),
    Case(
        "look-up, 502, not repeated",
        [answer(502, HTML)],
        {"status": 502},
        further={"repeat": False},
    ),
    Case(
        "bulk, 502",
        [answer(502, HTML), OK],
        value(),
        arguments=("POST", "/v1/compliance/bulk", {"registrations": []}),
    ),
    Case(
        "deletion, 502",
        [answer(502, HTML), answer(204)],
        value(None),
        arguments=("DELETE", "/api/domains/example.com"),
    ),
    Case("a space in a path", [OK], value(), arguments=("GET", "/v1/compliance/AB12 CDE")),
    Case(
        "pages",
        [
            answer(200, {"domains": [1, 2], "next": "b.example"}),
            answer(502, HTML),
            answer(200, {"domains": [3], "next": None}),
        ],
        value([[1, 2], [3]]),
        method="pages",
        arguments=(2, "active"),
    ),
    Case(
        "all plates",
        [
            answer(200, {"plan": {"bulkMax": 2}}),
            answer(200, {"results": ["a", "b"]}),
            RESET,
            answer(200, {"results": ["c", "d"]}),
            answer(200, {"results": ["e"]}),
        ],
        value(["a", "b", "c", "d", "e"]),
        method="check_all",
        arguments=(["A", "B", "C", "D", "E"], "/v1/compliance/bulk"),
        further={"asOf": "2026-12-31"},
    ),
    Case(
        "events",
        [
            answer(200, PAGE | {"events": ["a", "b"], "next": "f-2", "hasMore": True}),
            RESET,
            answer(200, PAGE | {"events": [], "next": "f-2"}),
            answer(200, PAGE | {"events": ["c", "d"], "next": "f-4"}),
        ],
        value(["a", "b", "c"]),
        method="events",
        arguments=("f-0", 1),
        waits=0.3,
    ),
    Case(
        "events that are gone",
        [answer(410, PROBLEM | {"code": "events_gone"})],
        {"code": "events_gone", "status": 410, "is_temporary": False},
        method="events",
        arguments=("f-0",),
    ),
    Case(
        "no plates",
        [answer(200, {"plan": {"bulkMax": 2}})],
        value([]),
        method="check_all",
        arguments=([], "/v1/compliance/bulk"),
    ),
]
REFUSED = [
    Case(
        f"refused, {name}",
        [],
        {"code": "no_answer", "status": None, "is_temporary": True, "maybe_done": False},
        arguments=arguments,
        options={"tries": 2},
        waits=0.25,
    )
    for name, arguments in (("look-up", LOOK_UP), ("creation", CREATE))
]

CHECKS = {"motValid": False, "roadTaxPaid": True}
NOT_KNOWN = ["motValid", "compliant"]
COMPLIANCE = {"compliant": False, "checks": CHECKS, "unknown": NOT_KNOWN}
VERDICTS = [
    Case(f"verdict, {name}", [], value(wanted), method="verdict", arguments=arguments)
    for name, arguments, wanted in (
        ("yes", ({"insured": True}, "insured"), True),
        ("no", ({"insured": False}, "insured"), False),
        ("not known", ({"insured": False, "unknown": ["insured"]}, "insured"), None),
        ("good and not known", ({"insured": True, "unknown": ["insured"]}, "insured"), None),
        ("another is not known", ({"insured": False, "unknown": ["later"]}, "insured"), False),
        ("failed item", ({"insured": False, "error": "", "code": ""}, "insured"), None),
        ("compliance", (COMPLIANCE, "compliant"), None),
        ("check", (COMPLIANCE, "motValid"), None),
        ("known check", (COMPLIANCE, "roadTaxPaid"), True),
        ("failed check", ({"checks": CHECKS}, "motValid"), False),
        ("period", ({"validThroughout": False}, "validThroughout"), False),
        ("too many policies", ({"tooManyPolicies": True}, "validThroughout"), None),
    )
]
"""What an answer says, or that it is not known (D198)."""


class Outcomes(NamedTuple):
    """What came of all calls in one language, and which requests arrived."""

    said: dict[str, dict[str, Any]]
    seen: dict[str, list[Request]]


@pytest.fixture(scope="module", params=["py", pytest.param("ts", marks=pytest.mark.system_long)])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Make the calls of all cases at once, in one language."""
    kind: str = request.param
    directory = tmp_path_factory.mktemp(kind)
    program = directory / f"calls.{kind}"
    program.write_bytes((PROGRAMS / program.name).read_bytes())
    (directory / f"verifyd.{kind}").write_bytes(client_library(f"verifyd.{kind}"))
    command = (
        [sys.executable] if kind == "py" else [python_tools().parent / "node", "--no-warnings"]
    )
    nobody = free_port()
    with Scripted({case.name.replace(" ", "_"): case.script for case in CASES}) as server:
        calls = {
            case.name: {
                "url": f"http://127.0.0.1:{server.port}/{case.name.replace(' ', '_')}"
                if case.script
                else f"http://127.0.0.1:{nobody}",
                "options": {"timeout": 1, "headers": {"Enquiry-Reason": "claim"}}
                | dict(case.options),
                "method": case.method,
                "arguments": case.arguments,
                "further": case.further,
            }
            for case in [*CASES, *REFUSED, *VERDICTS]
        }
        ended = subprocess.run(
            [*map(str, command), program],
            input=json.dumps(calls),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    return Outcomes(json.loads(ended.stdout), server.seen)


@each_row("case", [pytest.param(case, id=case.name) for case in [*CASES, *REFUSED, *VERDICTS]])
def test_a_call_ends_as_the_table_says(outcomes: Outcomes, case: Case) -> None:
    """Each call gives its value or its problem, in time, with as many requests as the script."""
    said = outcomes.said[case.name]
    assert {name: said.get(name) for name in case.wanted} == case.wanted, said
    assert len(outcomes.seen.get(case.name.replace(" ", "_"), [])) == len(case.script)
    assert case.waits <= said["seconds"] < SECONDS_MAX


def test_the_requests_are_those_of_the_interface(outcomes: Outcomes) -> None:
    """Each request has the key and the further headers; pages and bulks ask for what is left."""
    for request in chain.from_iterable(outcomes.seen.values()):
        assert (request.headers["X-API-Key"], request.headers["Enquiry-Reason"]) == ("k", "claim")
    assert [each.path for each in outcomes.seen["a_space_in_a_path"]] == [
        "/v1/compliance/AB12%20CDE"
    ]
    pages = [
        "/api/domains?limit=2&status=active",
        *["/api/domains?limit=2&status=active&after=b.example"] * 2,
    ]
    assert [each.path for each in outcomes.seen["pages"]] == pages
    assert [each.path for each in outcomes.seen["events"]] == [
        *("/v1/events?after=f-0", "/v1/events?after=f-2"),
        *("/v1/events?after=f-2", "/v1/events?after=f-2"),
    ]
    account, *bulks = outcomes.seen["all_plates"]
    assert account.path == "/v1/account"
    parts = (["A", "B"], ["C", "D"], ["C", "D"], ["E"])
    assert [each.body for each in bulks] == [
        {"registrations": part, "asOf": "2026-12-31"} for part in parts
    ]
    assert {each.path for each in bulks} == {"/v1/compliance/bulk"}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_is_small_and_needs_nothing(name: str) -> None:
    """A library has at most 220 lines and imports only the standard library."""
    text = client_library(name).decode()
    assert text.count("\n") <= 220
    modules = re.findall(r"(?m)^(?:from|import) (\w+)", text)
    assert set(modules) <= (sys.stdlib_module_names if name.endswith(".py") else set())


def test_the_pauses_double_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `Retry-After` a pause is random, twice as long as the last, and at most 8 seconds."""
    library: dict[str, Any] = {"__name__": "verifyd"}
    monkeypatch.setitem(sys.modules, "verifyd", SimpleNamespace(**library))
    text = client_library("verifyd.py").decode()
    exec(text.replace(PACKAGED_URL, f"http://127.0.0.1:{free_port()}"), library)
    pauses: list[float] = []
    monkeypatch.setattr(library["time"], "sleep", pauses.append)
    with pytest.raises(library["Problem"], match=r"^no_answer: ConnectionRefusedError"):
        library["Client"](key="k", tries=8).ask("GET", "/")
    for pause, longest in zip(pauses, (0.5, 1, 2, 4, 8, 8, 8), strict=True):
        assert longest / 2 <= pause <= longest
    pauses.clear()
    with pytest.raises(library["Problem"]):
        library["Client"](key="k", tries=8, patience=4).ask("GET", "/")
    assert len(pauses) < 5
