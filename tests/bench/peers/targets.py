"""The targets of speed, and whether a run met them. Most are ratios of medians within one run."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.bench.peers.results import Results

BULK = 1_000
_Measure = Callable[[Results], float | None]


class Target(NamedTuple):
    """A figure, and the least or the most that it may be."""

    title: str
    measure: _Measure
    bound: float
    is_least: bool = True
    digits: int = 2


class Verdict(NamedTuple):
    """A target after a run."""

    title: str
    target: str
    measured: str
    outcome: str
    """`met`, `not met` or `not measured`."""


def verdicts(results: Results) -> Iterator[Verdict]:
    """Yield a verdict on each target."""
    for each in TARGETS:
        sign = "≥" if each.is_least else "≤"
        target = f"{sign} {each.bound:,.{each.digits}f}"
        value = each.measure(results)
        if value is None:
            yield Verdict(each.title, target, "", "not measured")
            continue
        is_met = value >= each.bound if each.is_least else value <= each.bound
        outcome = "met" if is_met else "not met"
        yield Verdict(each.title, target, f"{value:,.{each.digits}f}", outcome)


def _median(part: str, subject: str, name: str) -> _Measure:
    return lambda results: results.value(part, subject, name)


def _ratio(above: _Measure, below: _Measure) -> _Measure:
    def measure(results: Results) -> float | None:
        values = above(results), below(results)
        return values[0] / values[1] if values[0] is not None and values[1] else None

    return measure


def _beside(part: str, name: str, other: str) -> _Measure:
    return _ratio(_median(part, "verifyd", name), _median(part, other, name))


def _bulk_vehicles_per_worker(results: Results) -> float | None:
    bulks = results.value("bulk", "verifyd", "answers_per_second")
    return None if bulks is None else bulks * BULK / results.options.processes


def _growth(results: Results) -> float | None:
    small, large = map(str, results.options.sizes)
    above, below = (_median("growth", size, "p50_ms") for size in (large, small))
    return _ratio(above, below)(results)


_PER_SECOND = "answers_per_second"
_LOOK_UP_CPU = _median("lookup", "verifyd", "cpu_us")

TARGETS = (
    Target("look-ups: × Fastify, log on", _beside("lookup", _PER_SECOND, "fastify-log"), 1.0),
    Target("look-ups: × Fastify, log off", _beside("lookup", _PER_SECOND, "fastify"), 0.9),
    Target("look-ups: × bare function, sync worker", _beside("lookup", _PER_SECOND, "bare"), 2.0),
    Target("look-ups: × Flask", _beside("lookup", _PER_SECOND, "flask"), 10),
    Target("look-ups: × FastAPI", _beside("lookup", _PER_SECOND, "fastapi"), 15),
    *(
        Target(f"p99 at the same rate: × {title}", _beside("rate", "p99_ms", name), 1.0, False)
        for name, title in {
            "fastify-log": "Fastify, log on",
            "fastify": "Fastify, log off",
            "bare": "bare function, sync worker",
            "flask": "Flask",
            "fastapi": "FastAPI",
        }.items()
    ),
    Target("CPU of a look-up under load, us", _LOOK_UP_CPU, 150, False, 0),
    Target(
        "CPU of a compliance check: × a look-up",
        _ratio(_median("compliance", "verifyd", "cpu_us"), _LOOK_UP_CPU),
        *(1.2, False),
    ),
    Target("bulks of 1,000: × Fastify, log off", _beside("bulk", _PER_SECOND, "fastify"), 2.0),
    Target("vehicles a second in bulk, per worker", _bulk_vehicles_per_worker, 100_000, digits=0),
    Target("median look-up, large register: × small register", _growth, 1.5, False),
    Target("memory of master and workers, MB", _median("memory", "verifyd", "memory_mb"), 110, False, 0),
    Target("first answer after a start from source, s", _median("start", "source", "first_answer_s"), 1, False),
    Target("first answer after a start of the binary, s", _median("start", "binary", "first_answer_s"), 3, False),
    Target(
        "p99 of look-ups during a load: × idle",
        _ratio(_median("load", "during a load", "p99_ms"), _median("load", "idle", "p99_ms")),
        *(3, False),
    ),
)
