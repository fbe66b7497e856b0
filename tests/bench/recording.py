"""Measures what the audit trail costs over HTTP: `python -m tests.bench.recording`.

Two services answer from one database on SQLite, one with the trail and one without. wrk drives them
alternately, in one run, so a busy machine slows both alike. The trail is on the disk of
`--directory`, and synced each second.
"""

import argparse
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from app.config import Config
from tests.bench.__main__ import BULK, build, plate
from tests.bench.peers.contestants import Contestant
from tests.bench.peers.wrk import Requests, drive
from tests.bench.processes import cpu_seconds
from tests.system.processes import Service, free_port

_LOOK_UPS = 20_011
_BULKS = 50


class _Sample(NamedTuple):
    """What one service did in one round."""

    a_second: float
    p99_ms: float
    cpu_us: float
    """Processor time of the service for each answer."""


def request_files(directory: Path, vehicles: int) -> dict[str, Requests]:
    """Write the requests, for random known vehicles, and return them by title."""
    chance = random.Random(0)

    def some(count: int) -> Iterator[str]:
        return (plate(chance.randrange(vehicles)) for _ in range(count))

    bulks = [json.dumps({"registrations": list(some(BULK))}) for _ in range(_BULKS)]
    kinds = {
        "insurance": ([f"/v1/vehicle/{each}/insurance" for each in some(_LOOK_UPS)], None),
        "compliance": ([f"/v1/compliance/{each}" for each in some(_LOOK_UPS)], None),
        "bulk": (bulks, "/v1/vehicle/bulk-insurance"),
        "bulk compliance": (bulks, "/v1/compliance/bulk"),
    }
    requests = {}
    for title, (lines, posted_to) in kinds.items():
        file = directory / title
        file.write_text("\n".join(lines) + "\n")
        requests[title] = Requests(file, posted_to)
    return requests


@contextmanager
def running(directory: Path, config: Config, audit: str, workers: int) -> Iterator[Contestant]:
    """Run a service with the trail `on` or `off`."""
    with Service(
        directory,
        f"127.0.0.1:{free_port()}",
        database_url=config.database_url,
        state_dir=directory / f"state-{audit}",
        audit=audit,
        audit_dir=directory / "audit",
        workers=workers,
    ) as service:
        service.wait_ready()
        yield Contestant("verifyd", service.bind, [service.process.pid])


def measured(contestant: Contestant, ask: Callable[[Contestant], tuple[int, int, int]]) -> _Sample:
    """Drive a service, and measure its processes meanwhile."""
    (pid,) = contestant.pids
    before = cpu_seconds(pid)
    answers, micros, p99_us = ask(contestant)
    used = cpu_seconds(pid) - before
    return _Sample(answers * 1e6 / micros, p99_us / 1_000, used * 1e6 / answers)


def main() -> None:
    """Measure every kind of request, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.recording", description=__doc__)
    parser.add_argument("--vehicles", type=int, default=200_000, help="default: %(default)s")
    parser.add_argument("--seconds", type=int, default=3, help="of a round; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="default: %(default)s")
    parser.add_argument("--connections", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--only", nargs="+", metavar="KIND", help="[all]")
    parser.add_argument("--directory", type=Path, help="where database and trail are made")
    args = parser.parse_args()
    with ExitStack() as stack:
        place = tempfile.TemporaryDirectory(prefix="verifyd-bench-", dir=args.directory)
        directory = Path(stack.enter_context(place))
        config, key = build(directory, args.vehicles)
        requests = request_files(directory, args.vehicles)
        services = {
            audit: stack.enter_context(running(directory, config, audit, args.workers))
            for audit in ("off", "on")
        }

        def ask(contestant: Contestant, kind: Requests) -> tuple[int, int, int]:
            options = {"seconds": args.seconds, "connections": args.connections}
            driven = drive(contestant, kind, key, **options)
            return driven.answers, driven.micros, driven.p99_us

        print(f"{'':18}{'off':>10}{'on':>10}{'ratio':>8}{'p99 off, on':>18}{'CPU off, on':>20}")
        for title in args.only or requests:
            kind = requests[title]
            samples: dict[str, list[_Sample]] = {"off": [], "on": []}
            for number in range(args.rounds):
                # The first of a pair finds the machine in another state than the second.
                for audit in sorted(services, reverse=number % 2 == 1):
                    sample = measured(services[audit], lambda each: ask(each, kind))  # noqa: B023
                    samples[audit].append(sample)
            _print_line(title, samples)


def _print_line(title: str, samples: dict[str, list[_Sample]]) -> None:
    off, on = samples["off"], samples["on"]
    ratio = median(mine.a_second / other.a_second for mine, other in zip(on, off, strict=True))
    rates = [median(each.a_second for each in side) for side in (off, on)]
    slowest = [median(each.p99_ms for each in side) for side in (off, on)]
    used = [median(each.cpu_us for each in side) for side in (off, on)]
    print(
        f"{title:18}{rates[0]:8,.0f}/s{rates[1]:8,.0f}/s{ratio:8.3f}"
        f"{slowest[0]:8,.1f}{slowest[1]:7,.1f} ms{used[0]:9,.0f}{used[1]:8,.0f} us",
        flush=True,
    )


if __name__ == "__main__":
    main()
