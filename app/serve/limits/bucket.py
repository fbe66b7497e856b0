"""Computes token buckets, in whole nanoseconds and without state.

A bucket is stored as one number: the time at which it is full again, GCRA's theoretical arrival
time. Taking a token moves that time ahead by `interval_ns`. It never lies more than `capacity_ns`
ahead of now, which is an empty bucket.
"""

from functools import lru_cache
from typing import NamedTuple

SECOND_NS = 10**9
_RATES_CACHED_MAX = 256


class Rate(NamedTuple):
    """A limit of requests, prepared for the computation by `rate()`."""

    limit: int
    window_seconds: int
    interval_ns: int
    """The time in which one token is refilled: the window divided by the limit, rounded up."""
    capacity_ns: int
    """The time in which an empty bucket is filled: the window, plus at most `limit` ns."""


@lru_cache(maxsize=_RATES_CACHED_MAX)
def rate(limit: int, window_seconds: int) -> Rate:
    """Return the rate of `limit` requests in `window_seconds`, both at least 1."""
    interval_ns = -(-window_seconds * SECOND_NS // limit)
    return Rate(limit, window_seconds, interval_ns, limit * interval_ns)


class Admission(NamedTuple):
    """The state of a bucket after a request, and whether the request is admitted."""

    full_at_ns: int
    """The time to store, at which the bucket is full again."""
    admitted: bool
    remaining: int
    """Whole tokens left: the number of requests that would be admitted now."""
    full_in_ns: int
    retry_after_seconds: int
    """0 if admitted; otherwise the time until the next token, rounded up."""


def take(rate: Rate, full_at_ns: int, now_ns: int) -> Admission:
    """Take a token if there is one. A refused request takes none.

    The stored time is limited to one empty bucket from now, for a refused request too. So after a
    change of the plan, or a step back of the clock, no client waits longer than one window. The
    change itself adds no token.
    """
    before_ns = _clamped(rate, full_at_ns, now_ns)
    after_ns = before_ns + rate.interval_ns
    missing_ns = after_ns - now_ns - rate.capacity_ns
    if missing_ns > 0:
        # The bucket is not full here, so `before_ns` is ahead of now.
        retry_after_seconds = -(-missing_ns // SECOND_NS)
        # So a client that is refused gains nothing by sending more, and loses nothing.
        return Admission(before_ns, False, 0, before_ns - now_ns, retry_after_seconds)
    remaining = -missing_ns // rate.interval_ns
    return Admission(after_ns, True, remaining, after_ns - now_ns, 0)


def peek(rate: Rate, full_at_ns: int, now_ns: int) -> Admission:
    """Return the state of a bucket without taking a token; `admitted` if there is one."""
    taken = take(rate, full_at_ns, now_ns)
    if not taken.admitted:
        return taken
    before_ns = _clamped(rate, full_at_ns, now_ns)
    full_in_ns = before_ns - now_ns
    remaining = (rate.capacity_ns - full_in_ns) // rate.interval_ns
    return Admission(before_ns, True, remaining, full_in_ns, 0)


def _clamped(rate: Rate, full_at_ns: int, now_ns: int) -> int:
    """Return the stored time, but at least now, and at most that of an empty bucket."""
    # PERF: this takes half the time of min(max(...)).
    if full_at_ns <= now_ns:
        return now_ns
    latest_ns = now_ns + rate.capacity_ns
    return full_at_ns if full_at_ns < latest_ns else latest_ns
