"""The targets of speed, and whether a run met them. Most are ratios of medians within one run."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from tests.bench.peers.results import Results

BULK = 1_000
_Measure = Callable[[Results], float | None]


class Target(NamedTuple):
    """A figure, and the least that it may be: or the most, as `AtMost` makes it."""

    title: str
    measure: _Measure
    bound: float
    is_least: bool = True

    def is_met_by(self, value: float) -> bool:
        """Tell whether a measured value meets the target."""
        return value >= self.bound if self.is_least else value <= self.bound


AtMost = partial(Target, is_least=False)


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
        target = f"{'≥' if each.is_least else '≤'} {_number(each.bound)}"
        value = each.measure(results)
        if value is None:
            yield Verdict(each.title, target, "", "not measured")
        else:
            outcome = "met" if each.is_met_by(value) else "not met"
            yield Verdict(each.title, target, _number(value), outcome)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _median(part: str, subject: str, name: str) -> _Measure:
    return lambda results: results.value(part, subject, name)


def _ratio(above: _Measure, below: _Measure) -> _Measure:
    def measure(results: Results) -> float | None:
        values = above(results), below(results)
        return values[0] / values[1] if values[0] is not None and values[1] else None

    return measure


def _beside(part: str, name: str, other: str) -> _Measure:
    return _ratio(_median(part, "verifyd", name), _median(part, other, name))


def _growth(results: Results) -> float | None:
    small, large = map(str, results.options.sizes)
    above, below = (_median("growth", size, "p50_ms") for size in (large, small))
    return _ratio(above, below)(results)


_PER_SECOND = "answers_per_second"
_IDLE_P99 = _median("load", "idle", "p99_ms")
_LOADING_P99 = _median("load", "during a load", "p99_ms")


def _gain(subject: str, before: str) -> _Measure:
    return _ratio(_median("lookup", subject, _PER_SECOND), _median("lookup", before, _PER_SECOND))


_START = "first answer after a start"

TARGETS = (
    AtMost("CPU of a look-up: ratio to before", _beside("lookup", "cpu_us", "before"), 0.7),
    AtMost("CPU of a check: ratio to before", _beside("compliance", "cpu_us", "before"), 0.75),
    AtMost("CPU of a bulk: ratio to before", _beside("bulk", "cpu_us", "before"), 0.7),
    Target("look-ups behind nginx: ratio to before", _gain("nginx", "before-nginx"), 1.15),
    Target("look-ups on Postgres: ratio to before", _gain("postgres", "before-postgres"), 1.15),
    Target(
        "look-ups: ratio to Fastify, log on", _beside("lookup", _PER_SECOND, "fastify-log"), 0.95
    ),
    Target("look-ups: ratio to the bare function", _beside("lookup", _PER_SECOND, "bare"), 2),
    Target("look-ups: ratio to Flask", _beside("lookup", _PER_SECOND, "flask"), 12),
    Target("look-ups: ratio to FastAPI", _beside("lookup", _PER_SECOND, "fastapi"), 16),
    AtMost(
        "p99, full load: ratio to Fastify, log on", _beside("lookup", "p99_ms", "fastify-log"), 1
    ),
    AtMost("p99, same rate: ratio to Fastify, log on", _beside("rate", "p99_ms", "fastify-log"), 1),
    AtMost("p99, same rate: ratio to Fastify, log off", _beside("rate", "p99_ms", "fastify"), 1),
    AtMost("p99, same rate: ratio to the bare function", _beside("rate", "p99_ms", "bare"), 1),
    AtMost("p99, same rate: ratio to Flask", _beside("rate", "p99_ms", "flask"), 1),
    AtMost("p99, same rate: ratio to FastAPI", _beside("rate", "p99_ms", "fastapi"), 1),
    Target("bulks: ratio to Fastify, one query", _beside("bulk", _PER_SECOND, "fastify"), 1.2),
    AtMost("median look-up: ratio of a large register to a small one", _growth, 1.5),
    AtMost("memory of master and workers, MB", _median("memory", "verifyd", "memory_mb"), 110),
    AtMost(f"{_START} from source, s", _median("start", "source", "first_answer_s"), 1),
    AtMost(f"{_START} of the binary, s", _median("start", "binary", "first_answer_s"), 3),
    AtMost("p99 during a load: ratio to idle", _ratio(_LOADING_P99, _IDLE_P99), 3),
)
