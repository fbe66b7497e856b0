"""What one host answers: `verifyd serve` as it is installed, on either database, with its clients.

Server, clients and database share this machine, so that a server of its own does rather better.
`make bench` prints it with the rest.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from app.accounts.administration import create_account, create_key, set_plan
from app.config import Config
from app.database import close_quietly, open_engine
from tests.system.processes import Service, send

BULK = 1_000
_CLIENTS = 4
_ROUNDS = 3
_ROUND_SECONDS = 2

Request = tuple[str, str, bytes | None]


class _Rate(NamedTuple):
    """What the clients got: answers a second, and the milliseconds of the slowest 1 %."""

    a_second: float
    percentile_99_ms: float


def print_rates(directory: Path, configs: dict[str, Config], plates: Sequence[str]) -> None:
    """Measure a server on each database in turn, and print what each answers a second.

    Args:
        configs: by the name of the database.
        plates: of vehicles that are there.
    """
    workers = os.cpu_count() or 1
    with ExitStack() as running:
        servers = {
            name: running.enter_context(_server(directory, name, config, workers))
            for name, config in configs.items()
        }
        print(
            f"verifyd serve, {workers} workers, {_CLIENTS} clients on the same machine; a second:"
        )
        print(f"{'':32}" + "".join(f"{name:>12}{'p99':>12}" for name in servers))
        for title, (answers, requests) in _measured(plates).items():
            rates: dict[str, list[_Rate]] = {name: [] for name in servers}
            for _ in range(_ROUNDS):
                for name, server in servers.items():
                    rates[name].append(_rate(server, requests))
            columns = (
                f"{answers * median(rate.a_second for rate in of_one):12,.0f}"
                f"{median(rate.percentile_99_ms for rate in of_one):9,.0f} ms"
                for of_one in rates.values()
            )
            print(f"{title:32}" + "".join(columns))
    print()


def _server(directory: Path, name: str, config: Config, workers: int) -> Service:
    """Return a server whose key's account has no limits."""
    engine = open_engine(config.database_url)
    limits = {"requests": 10**9, "window_seconds": 1, "bulk_max": 10_000, "domains_max": 10**6}
    set_plan(engine, "unlimited", **limits)
    create_account(engine, "unlimited", "unlimited")
    key = create_key(engine, "unlimited")[1].text
    close_quietly(engine)
    service = Service(
        directory,
        f"unix:{directory / name}.sock",
        database_url=config.database_url,
        state_dir=config.state_dir,
        workers=workers,
    )
    service.key = key
    return service.wait_ready()


def _measured(plates: Sequence[str]) -> dict[str, tuple[int, Callable[[int], Iterator[Request]]]]:
    """Return what is asked, by title: how much one answer counts, and each client's requests."""
    bulk = msgspec.json.encode({"registrations": plates[:BULK]})

    def look_ups(client: int) -> Iterator[Request]:
        for number in count(client * 1_009):
            yield "GET", f"/v1/vehicle/{plates[number % len(plates)]}/insurance", None

    def bulks(_client: int) -> Iterator[Request]:
        while True:
            yield "POST", "/v1/vehicle/bulk-insurance", bulk

    def creations(client: int) -> Iterator[Request]:
        for number in count():
            name = f"b{time.monotonic_ns()}-{client}-{number}.example.com"
            yield "POST", "/api/domains", msgspec.json.encode({"name": name})

    return {
        "look-ups": (1, look_ups),
        f"vehicles in bulk of {BULK:,}": (BULK, bulks),
        "domains created": (1, creations),
    }


def _rate(server: Service, requests: Callable[[int], Iterator[Request]]) -> _Rate:
    """Let all clients, each a process, ask for the length of a round."""
    context = multiprocessing.get_context("fork")
    results: Any = context.SimpleQueue()
    clients = [
        context.Process(target=_ask, args=(server.bind, server.key, requests(number), results.put))
        for number in range(_CLIENTS)
    ]
    for client in clients:
        client.start()
    times = sorted(passed for _ in clients for passed in results.get())
    for client in clients:
        client.join()
    return _Rate(len(times) / _ROUND_SECONDS, times[len(times) * 99 // 100] * 1_000)


def _ask(
    bind: str, key: str, requests: Iterator[Request], put: Callable[[list[float]], object]
) -> None:
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    times = []
    ends_at = time.perf_counter() + _ROUND_SECONDS
    while (started := time.perf_counter()) < ends_at:
        method, path, body = next(requests)
        answer = send(bind, method, path, body=body, headers=headers)
        # A measure of failures would be worth nothing.
        assert answer.status in {200, 201}, answer
        times.append(time.perf_counter() - started)
    put(times)
