"""The parts in which all contestants do the same, one after the other, in several rounds."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench.peers.answers import compliance_path, insurance_path, require_same_answers
from tests.bench.peers.contestants import KNOWN, Contestant, Setting, started
from tests.bench.peers.data import Data, write_plain_database
from tests.bench.peers.environments import MissingError
from tests.bench.peers.results import Options, Results, Sample
from tests.bench.peers.steady import ask_steadily, percentile_ms
from tests.bench.peers.targets import BULK
from tests.bench.peers.wrk import Requests, drive
from tests.bench.processes import cpu_seconds, memory_bytes

COMPARED = ("lookup", "compliance", "bulk", "rate")
_PLATES = 20_011
_BULKS = 50
_Measure = Callable[[Contestant, int], Sample]
"""Measures a contestant for so many seconds."""


def compare(
    results: Results, directory: Path, data: Data, names: Sequence[str], parts: Sequence[str]
) -> None:
    """Measure contestants, and note who cannot run, with the reason."""
    file = write_plain_database(data, directory / "plain.db")
    options = results.options
    setting = Setting(directory, data, file, options.processes, options.interpreter, options.before)
    able = [name for name in names if any(KNOWN[name].takes_part(part) for part in parts)]
    with ExitStack() as running:
        contestants = []
        for name in able:
            try:
                contestants.append(running.enter_context(started(name, setting)))
            except MissingError as error:
                results.left_out[name] = str(error)
        _check(contestants, data)
        measures = _measures(directory, data, results.options)
        for part in parts:
            taking_part = [each for each in contestants if KNOWN[each.name].takes_part(part)]
            _measure_by_turns(results, part, measures[part], taking_part)


def _check(contestants: Sequence[Contestant], data: Data) -> None:
    """Raise WrongAnswerError unless all but the bare function answer like the first one."""
    verifyd, *others = contestants
    for other in others:
        if not KNOWN[other.name].is_bare:
            count = require_same_answers(verifyd, other, data)
            print(f"{other.title}: {count} answers like those of {verifyd.title}", flush=True)


def _measure_by_turns(
    results: Results, part: str, measure: _Measure, contestants: Sequence[Contestant]
) -> None:
    seconds = results.options.seconds
    for contestant in contestants:
        measure(contestant, max(seconds // 5, 1))  # It warms up.
    samples: dict[str, list[Sample]] = {}
    results.figures[part] = samples
    for number in range(results.options.rounds):
        for contestant in contestants:
            sample = measure(contestant, seconds)
            samples.setdefault(contestant.name, []).append(sample)
            shown = ", ".join(f"{name} {value:,.2f}" for name, value in sample.items())
            print(f"{part}, round {number + 1}, {contestant.title}: {shown}", flush=True)


def _measures(directory: Path, data: Data, options: Options) -> dict[str, _Measure]:
    def driven(requests: Requests) -> _Measure:
        def measure(contestant: Contestant, seconds: int) -> Sample:
            return drive_and_watch(contestant, requests, data.key, seconds, options.connections)

        return measure

    def steady(contestant: Contestant, seconds: int) -> Sample:
        return steady_sample(contestant, data, options.rate, seconds)

    files = request_files(directory, data)
    return {part: driven(requests) for part, requests in files.items()} | {"rate": steady}


def request_files(directory: Path, data: Data) -> dict[str, Requests]:
    """Write the requests of the three operations, for random vehicles."""
    plates = data.some_plates(_PLATES)
    bulks = [data.some_plates(BULK, seed) for seed in range(_BULKS)]
    lines = {
        "lookup": [insurance_path(text) for text in plates],
        "compliance": [compliance_path(text) for text in plates],
        "bulk": [json.dumps({"registrations": bulk}) for bulk in bulks],
    }
    for name, each in lines.items():
        (directory / name).write_text("\n".join(each) + "\n")
    return {
        "lookup": Requests(directory / "lookup"),
        "compliance": Requests(directory / "compliance"),
        "bulk": Requests(directory / "bulk", posted_to="/v1/vehicle/bulk-insurance"),
    }


def drive_and_watch(
    contestant: Contestant, requests: Requests, key: str, seconds: int, connections: int
) -> Sample:
    """Drive a contestant with wrk, and measure what its processes use meanwhile."""
    before = cpu_seconds(*contestant.pids)
    driven = drive(contestant, requests, key, seconds=seconds, connections=connections)
    used = cpu_seconds(*contestant.pids) - before
    return {
        "answers_per_second": driven.answers * 1e6 / driven.micros,
        "p50_ms": driven.p50_us / 1000,
        "p99_ms": driven.p99_us / 1000,
        "cpu_us": used * 1e6 / driven.answers,
        "memory_mb": memory_bytes(*contestant.pids) / 1e6,
    }


def steady_sample(contestant: Contestant, data: Data, rate: int, seconds: int) -> Sample:
    """Look vehicles up at a fixed rate for this long."""
    ends_at = time.monotonic() + seconds
    return steady_sample_until(contestant, data, rate, lambda: time.monotonic() > ends_at)


def steady_sample_until(
    contestant: Contestant, data: Data, rate: int, is_over: Callable[[], bool]
) -> Sample:
    """Look vehicles up at a fixed rate until it is over."""
    paths = [insurance_path(text) for text in data.some_plates(_PLATES)]
    started_at = time.monotonic()
    times = ask_steadily(contestant.bind, data.key, paths, rate, is_over)
    return {
        "answers_per_second": len(times) / (time.monotonic() - started_at),
        "p50_ms": percentile_ms(times, 0.5),
        "p99_ms": percentile_ms(times, 0.99),
    }
