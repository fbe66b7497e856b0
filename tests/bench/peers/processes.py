"""The processor time and the memory of a contestant: all its processes together."""

from collections.abc import Iterable
from contextlib import suppress

import psutil

_BYTES_A_MB = 1_000_000


def tree(pids: Iterable[int]) -> list[psutil.Process]:
    """Return the processes of these ids that run, with all their descendants."""
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
    return found


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """Return the processor time that processes have used so far; those that ended do not count."""
    used = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system
    return used


def memory_mb(processes: Iterable[psutil.Process]) -> float:
    """Return the memory (PSS) of processes: a page that n of them share counts once."""
    used = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            used += process.memory_full_info().pss
    return used / _BYTES_A_MB


def end(processes: Iterable[psutil.Process]) -> None:
    """End processes: first as an operator does, after five seconds at once."""
    ending = list(processes)
    for stop in (psutil.Process.terminate, psutil.Process.kill):
        for process in ending:
            with suppress(psutil.NoSuchProcess):
                stop(process)
        _, ending = psutil.wait_procs(ending, timeout=5)
