"""Helpers for tests of the limiter's store: a state file, and a plan of five requests."""

import multiprocessing
import resource
from contextlib import contextmanager

from app.serve.limits.bucket import rate
from app.serve.limits.store import LimitStore, identity_of

DATABASE = "0123456789abcdef0123456789abcdef"
NOW_NS = 10**15
PLAN = rate(5, 60)
FORK = multiprocessing.get_context("fork")


def opened(path, clock=lambda: NOW_NS):
    """Return a store on the file, as another process would open it."""
    return LimitStore(path, lambda: identity_of(path, lambda: DATABASE), clock)


def spend(store, count, slot=0):
    """Take this many tokens; fail if one is missing."""
    for _ in range(count):
        assert store.take(slot, PLAN).admitted


def left(store, slot=0):
    return store.peek(slot, PLAN).remaining


@contextmanager
def file_size_limit(size_bytes):
    """Let no process write files beyond this size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def in_processes(count, work):
    """Run work() in this many forked processes at once; return what each returned."""
    barrier, results = FORK.Barrier(count), FORK.SimpleQueue()

    def run():
        barrier.wait()
        results.put(work())

    processes = [FORK.Process(target=run) for _ in range(count)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return found
