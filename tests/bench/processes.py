"""Processes that measure, and what processes use: of each, with all its descendants."""

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import psutil

from tests.system.processes import descendants


def tree(pids: Iterable[int]) -> list[psutil.Process]:
    """Return the processes of these ids that run, with all their descendants."""
    found = []
    # PERF: psutil would look at all processes of the machine, while something is measured.
    for pid in (each for first in pids for each in (first, *descendants(first))):
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found


def cpu_seconds(*pids: int) -> float:
    """Return the processor time that processes have used so far, with that of ended children."""
    used = 0.0
    for process in tree(pids):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return used


def memory_bytes(*pids: int) -> int:
    """Return the memory (PSS) of processes: a page that n of them share counts once."""
    used = 0
    for process in tree(pids):
        with suppress(psutil.Error):  # It has ended.
            used += process.memory_full_info().pss
    return used


def times_of(runs: Sequence[Callable[[Callable[[object], object]], object]]) -> list[Any]:
    """Run functions, each in a process of its own; return the times of all, sorted.

    Args:
        runs: each gets a function, and calls it with a list of times at its end.
    """
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    measuring = [context.Process(target=run, args=(results.put,)) for run in runs]
    for process in measuring:
        process.start()
    times = sorted(time for _ in measuring for time in results.get())
    for process in measuring:
        process.join()
    return times


def end(processes: Iterable[psutil.Process]) -> None:
    """End processes: first as an operator does, after five seconds at once."""
    ending = list(processes)
    for stop in (psutil.Process.terminate, psutil.Process.kill):
        for process in ending:
            with suppress(psutil.NoSuchProcess):
                stop(process)
        _, ending = psutil.wait_procs(ending, timeout=5)
