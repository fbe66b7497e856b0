"""The cost of a take from the limiter's store, alone and with contending processes (D11).

Run `python -m tests.bench.limits` for these alone; `make bench` prints them with the rest.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from app.serve.limits.bucket import rate
from app.serve.limits.store import LimitStore, start
from tests.bench.processes import times_of

CONTENDING = 4
_PLAN = rate(10**9, 1)
_BATCH = 2_000


class Cost(NamedTuple):
    """Microseconds per take: the median, and the total over all processes."""

    median_us: float
    percentile_99_us: float
    mean_us: float


def figures(seconds: float = 2) -> dict[str, Cost]:
    """Measure takes from a store in a temporary place; return the costs by name."""
    costs = {}
    with _memory_directory() as directory:
        path = directory / "limits"
        identity = start(path, "benchmark")
        for processes in (1, CONTENDING):
            name = "alone" if processes == 1 else f"{processes} processes contending"
            costs[f"one take, {name}"] = _measured(
                LimitStore(path, lambda: identity), processes, seconds
            )
    return costs


def _measured(store: LimitStore, processes: int, seconds: float) -> Cost:
    ready = multiprocessing.get_context("fork").Barrier(processes)
    times = times_of([partial(_take_for, store, seconds, ready.wait)] * processes)
    mean_us = seconds * 1e6 / len(times)
    return Cost(median(times) / 1000, times[len(times) * 99 // 100] / 1000, mean_us)


def _take_for(
    store: LimitStore,
    seconds: float,
    wait: Callable[[], object],
    put: Callable[[list[int]], object],
) -> None:
    times = []
    wait()
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        for _ in range(_BATCH):
            started = time.perf_counter_ns()
            store.take(0, _PLAN)
            times.append(time.perf_counter_ns() - started)
    put(times)


@contextmanager
def _memory_directory() -> Iterator[Path]:
    """Return a directory on a tmpfs, if there is one, as in production."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)


def print_figures() -> None:
    """Measure, and print a line for each."""
    for name, cost in figures().items():
        print(
            f"{name:36}{cost.median_us:8.1f} us median{cost.percentile_99_us:9.1f} us 99 %"
            f"{cost.mean_us:8.1f} us each, all together"
        )


if __name__ == "__main__":
    print_figures()
