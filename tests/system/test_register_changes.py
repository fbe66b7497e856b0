"""No look-up fails while a register is replaced, rolled back, dropped or undropped (D72)."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.accounts.administration import set_plan
from app.config import Config
from app.storage.session import opened_database
from app.vehicles.document import document_of
from app.vehicles.explanation import explain
from app.vehicles.reader import VehicleReader
from app.vehicles.records import Records
from tests.conftest import World
from tests.system.processes import environment, send, until
from tests.system.threads import Threads

CLIENTS = 4
CAR, OTHER = "AB12CDE", "XY99ZZZ"
INSURANCE = f"/v1/vehicle/{CAR}/insurance"
COMPLIANCE = f"/v1/compliance/{CAR}"
BULK = "/v1/vehicle/bulk-insurance"
# PERF: one process runs all commands, because most of a command's time is its start.
OPERATOR = """
import json, os, sys
from app.cli import main

os.nice = lambda _: 0  # It would add up, and the clients leave little time.
for line in sys.stdin:
    status = main(json.loads(line))
    print("ended with", status, flush=True)
"""
BULK_BODY = f'{{"registrations": ["{CAR}", "{OTHER}"]}}'
POLICY = {"registration": OTHER, "number": "P-2", "validFrom": "2026-01-01"}


class State(NamedTuple):
    """The register's content about the car; both None if it does not mention it."""

    make: str | None
    policy: str | None


FORD, SEAT, NOTHING = State("FORD", "P-1"), State("SEAT", "P-1"), State(None, None)
UNINSURED = State("FORD", None)


class Change(NamedTuple):
    """A command, and the register's content after it."""

    words: Sequence[object]
    after: State


class Seen(NamedTuple):
    """One answer: its start, its end, and its content about the car."""

    asked_at: float
    came_at: float
    path: str
    told: object


class Held(NamedTuple):
    """A state of the register, and the time span in which it could be read."""

    since: float
    until: float
    state: State

    def can_be_in(self, seen: Seen) -> bool:
        """Tell whether an answer can be of this state."""
        return seen.came_at >= self.since and seen.asked_at <= self.until


class Clients(Threads):
    """Clients that look the car up in both ways alternately; `with` runs them."""

    def __init__(self, bind: str, key: str) -> None:
        self._bind = bind
        self._headers = {"X-API-Key": key, "Content-Type": "application/json"}
        self.seen: list[Seen] = []
        self.failures: list[object] = []
        super().__init__(*[self._run] * CLIENTS)

    def wait_for_more(self, answers: int = 12) -> None:
        """Wait until this many further answers have come."""
        enough = len(self.seen) + answers
        until(lambda: len(self.seen) >= enough or self.failures, "further answers")

    def _run(self) -> None:
        while not self.over.is_set():
            for path in (INSURANCE, BULK, COMPLIANCE):
                asked_at = time.monotonic()
                method, body = ("POST", BULK_BODY) if path == BULK else ("GET", None)
                try:
                    answer = send(self._bind, method, path, body=body, headers=self._headers)
                    told = said(path, answer.json())
                except (OSError, HTTPException, AssertionError, LookupError) as error:
                    self.failures.append(repr(error))
                    continue
                self.seen.append(Seen(asked_at, time.monotonic(), path, told))


def said(path: str, document: Any) -> object:
    """Return what an answer says of the car; it must match the request."""
    assert "status" not in document or document["status"] == 404, document
    if path == BULK:
        car, other = document["results"]
        assert other["policy"]["number"] == "P-2", document
        return car.get("code") or (car["policy"] or {}).get("number")
    if "code" in document:
        return document["code"]
    if path == COMPLIANCE:
        return document["checks"]["insuranceValid"]
    return document["vehicle"]["make"], (document["policy"] or {}).get("number")


def expected(path: str, state: State) -> object:
    """Return what an answer says while the register is in this state."""
    if state == NOTHING:
        return "vehicle_not_found"
    return {INSURANCE: tuple(state), BULK: state.policy, COMPLIANCE: state.policy is not None}[path]


@pytest.fixture(params=["sqlite", "postgres"])
def database_kind(request: pytest.FixtureRequest) -> str:
    """Both engines."""
    kind: str = request.param
    return kind


@pytest.fixture
def cars(world: World) -> dict[str, Path]:
    """Register files of the car; another register, which never changes, has the other car."""
    world.load([POLICY | {"validTo": "2099-12-31"}], register="other")
    contents = {
        "FORD": f"registration,make\n{CAR},FORD\n",
        "SEAT": f"registration,make\n{CAR},SEAT\n",
        "policy": f"registration,number,validFrom,validTo\n{CAR},P-1,2026-01-01,2099-12-31\n",
    }
    paths = {name: world.directory / f"{name}.csv" for name in contents}
    for name, path in paths.items():
        path.write_text(contents[name])
    return paths


@pytest.fixture
def clients(world: World, serve: Any, cars: dict[str, Path]) -> Iterator[Clients]:
    """Clients of a service that holds the Ford and its policy."""
    for name in ("policy", "FORD"):
        world.load_files(cars[name])
    set_plan(
        world.engine,
        "all",
        {"requests": 10**6, "window_seconds": 1, "bulk_max": 9, "domains_max": 9},
    )
    key = world.key_of("hammer", "all")
    with Clients(serve(workers=4).bind, key) as running:
        yield running


class Operator:
    """Runs commands in a separate process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, *words: object) -> None:
        """Run a command to its end; it must succeed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(list(map(str, words))), file=self._process.stdin, flush=True)
        told = iter(self._process.stdout.readline, "")
        ended = next((line for line in told if line.startswith("ended with")), "")
        assert ended == "ended with 0\n", words


@pytest.fixture
def operator(world: World) -> Iterator[Operator]:
    """An operator of the world's installation."""
    config = world.config
    process = subprocess.Popen(
        [sys.executable, "-c", OPERATOR],
        env=environment(database_url=config.database_url, state_dir=config.state_dir),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Operator(process)
        process.kill()


def a_round(cars: dict[str, Path]) -> Iterator[Change]:
    """Every kind of change, and the first state again at the end."""
    drop = ("imports", "drop", "native", "--yes")
    replace = ("import", "--mode", "replace")
    yield Change((*replace, cars["SEAT"]), SEAT)
    yield Change(("imports", "rollback"), FORD)
    yield Change((*replace, cars["SEAT"]), SEAT)
    yield Change((*replace, cars["FORD"]), FORD)
    yield Change(drop, NOTHING)
    yield Change(("imports", "undrop", "native"), FORD)
    yield Change(("imports", "rollback"), SEAT)
    yield Change((*drop, "--purge"), NOTHING)
    yield Change((*replace, cars["FORD"]), UNINSURED)
    yield Change(drop, NOTHING)
    yield Change((*drop, "--purge"), NOTHING)
    yield Change(("import", cars["policy"]), State(None, "P-1"))
    yield Change(("import", cars["FORD"]), FORD)


@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.system_long)])
def test_every_look_up_is_answered_while_a_register_changes(rounds, cars, clients, operator):
    """Each answer is of the state before or after; after a command's end, only of after."""
    clients.wait_for_more()
    held = [Held(0.0, float("inf"), FORD)]
    for change in (change for _ in range(rounds) for change in a_round(cars)):
        begun_at = time.monotonic()
        operator.run(*change.words)
        held[-1] = held[-1]._replace(until=time.monotonic())
        held.append(Held(begun_at, float("inf"), change.after))
        clients.wait_for_more()
    assert clients.failures == []
    for seen in clients.seen:
        right = {expected(seen.path, each.state) for each in held if each.can_be_in(seen)}
        assert seen.told in right, seen


class Explainer(Threads):
    """Explains both cars continuously, as `verifyd lookup` does."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.seen: list[Seen] = []
        self.failures: list[str] = []
        super().__init__(self._run)

    def wait_for_more(self, explanations: int = 5) -> None:
        """Wait until this many further explanations have come."""
        enough = len(self.seen) + explanations
        until(lambda: len(self.seen) >= enough or self.failures, "further explanations")

    def _run(self) -> None:
        config = self._config
        with opened_database(config) as engine:
            reader = VehicleReader(Records(engine, config), config)
            while not self.over.is_set():
                asked_at = time.monotonic()
                try:
                    explained = explain(engine, reader, (CAR, OTHER), "2026-06-30")
                    document = document_of(explained, "2026-06-30")
                    self.seen.append(Seen(asked_at, time.monotonic(), "", explained_car(document)))
                except Exception as error:
                    self.failures.append(repr(error))


def explained_car(document: Any) -> State:
    """Return the state in the explanation of the car; answer and holdings must agree."""
    car, other = document["plates"]
    assert other["insurance"]["policy"]["number"] == "P-2", document
    if "error" in car:
        return NOTHING
    held = next(each for each in car["registers"] if each["register"] == "native")
    numbers = [policy["number"] for policy in held["policies"]] or [None]
    state = State((held["vehicle"] or {}).get("make"), numbers[0])
    insurance = car["insurance"]
    assert insurance["vehicle"]["make"] == state.make, document
    assert (insurance["policy"] or {}).get("number") == state.policy, document
    return state


@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.system_long)])
def test_every_explanation_is_of_one_state_while_a_register_changes(rounds, world, cars, operator):
    """Look-ups by commands never fail, and never mix the states before and after."""
    for name in ("policy", "FORD"):
        world.load_files(cars[name])
    held = [Held(0.0, float("inf"), FORD)]
    with Explainer(world.config) as explainer:
        for change in (change for _ in range(rounds) for change in a_round(cars)):
            begun_at = time.monotonic()
            operator.run(*change.words)
            held[-1] = held[-1]._replace(until=time.monotonic())
            held.append(Held(begun_at, float("inf"), change.after))
            explainer.wait_for_more()
    assert explainer.failures == []
    for seen in explainer.seen:
        assert seen.told in {each.state for each in held if each.can_be_in(seen)}, seen
