"""The throughput of one host: `verifyd serve` on either database, with its clients.

Server, clients and database share this machine, so a dedicated server does better. `make bench`
prints it with the rest.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from app.accounts.administration import create_account, create_key, set_plan
from app.config import Config
from app.storage.engine import close_quietly, open_engine
from tests.bench.processes import cpu_seconds, times_of
from tests.system.processes import Service, send

BULK = 1_000
_CLIENTS = 4
_ROUNDS = 3
_ROUND_SECONDS = 2

Request = tuple[str, str, bytes | None]
_Requests = Callable[[int], Iterator[Request]]
"""What a client of this number asks, one after the other."""


class _Rate(NamedTuple):
    """The answers in one round, and the cost of each."""

    a_second: float
    percentile_99_ms: float
    service_cpu_ms: float
    database_cpu_ms: float


class _Installation(NamedTuple):
    """A service, and the process of its database if that is a server."""

    service: Service
    database_pid: int | None

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the processor time of the service and of the database, so far."""
        database = cpu_seconds(self.database_pid) if self.database_pid else 0.0
        return cpu_seconds(self.service.process.pid), database


def print_rates(
    directory: Path,
    configs: Mapping[str, Config],
    database_pids: Mapping[str, int],
    plates: Sequence[str],
) -> None:
    """Measure a service on each database alternately; print its throughput and cost.

    Args:
        configs: by the name of the database.
        database_pids: by the same name, the first process of a database that is a server.
        plates: of existing vehicles.
    """
    workers = os.cpu_count() or 1
    with ExitStack() as running:
        installations = {
            name: _Installation(
                running.enter_context(_service(directory, name, config, workers)),
                database_pids.get(name),
            )
            for name, config in configs.items()
        }
        rates = {
            title: _by_turns(installations, requests)
            for title, requests in _measured(plates).items()
        }
    clients = f"{workers} workers, {_CLIENTS} clients on the same machine"
    _print_table(f"verifyd serve, {clients}; a second:", rates, "p99", _answered)
    _print_table("processor time of an answer:", rates, "database", _taken)


def _by_turns(
    installations: Mapping[str, _Installation], requests: _Requests
) -> dict[str, list[_Rate]]:
    rates: dict[str, list[_Rate]] = {name: [] for name in installations}
    for _ in range(_ROUNDS):
        for name, installation in installations.items():
            rates[name].append(_rate(installation, requests))
    return rates


def _answered(rates: Sequence[_Rate]) -> str:
    a_second = median(rate.a_second for rate in rates)
    return f"{a_second:12,.1f}{median(rate.percentile_99_ms for rate in rates):9,.0f} ms"


def _taken(rates: Sequence[_Rate]) -> str:
    service = median(rate.service_cpu_ms for rate in rates)
    return f"{service:9,.2f} ms{median(rate.database_cpu_ms for rate in rates):9,.2f} ms"


def _print_table(
    title: str,
    rates: Mapping[str, Mapping[str, Sequence[_Rate]]],
    second: str,
    columns: Callable[[Sequence[_Rate]], str],
) -> None:
    """Print a line per kind of request, with two columns per database; one is named `second`."""
    print(title)
    print(" " * 32 + "".join(f"{name:>12}{second:>12}" for name in next(iter(rates.values()))))
    for name, by_database in rates.items():
        print(f"{name:32}" + "".join(map(columns, by_database.values())))
    print()


def _service(directory: Path, name: str, config: Config, workers: int) -> Service:
    """Return a service whose key's account has no limits."""
    engine = open_engine(config.database_url)
    limits = {"requests": 10**9, "window_seconds": 1, "bulk_max": 10_000, "domains_max": 10**6}
    set_plan(engine, "unlimited", limits)
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


def _measured(plates: Sequence[str]) -> dict[str, _Requests]:
    """Return the measured requests, by title."""
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
        "look-ups": look_ups,
        f"bulk look-ups of {BULK:,}": bulks,
        "domains created": creations,
    }


def _rate(installation: _Installation, requests: _Requests) -> _Rate:
    """Run all clients, each a process, for the length of a round."""
    service = installation.service
    before = installation.cpu_seconds()
    times = times_of(
        [partial(_ask, service.bind, service.key, requests(each)) for each in range(_CLIENTS)]
    )
    used = zip(installation.cpu_seconds(), before, strict=True)
    return _Rate(
        len(times) / _ROUND_SECONDS,
        times[len(times) * 99 // 100] * 1_000,
        *((now - then) * 1_000 / len(times) for now, then in used),
    )


def _ask(
    bind: str, key: str, requests: Iterator[Request], put: Callable[[list[float]], object]
) -> None:
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    times = []
    ends_at = time.perf_counter() + _ROUND_SECONDS
    while (started := time.perf_counter()) < ends_at:
        method, path, body = next(requests)
        answer = send(bind, method, path, body=body, headers=headers)
        # Measuring failures is useless.
        assert answer.status in {200, 201}, answer
        times.append(time.perf_counter() - started)
    put(times)
