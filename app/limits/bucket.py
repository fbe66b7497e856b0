"""The arithmetic of a token bucket, in whole nanoseconds and without state (D8, D9).

It is kept as one number, the theoretical arrival time (GCRA): the moment at which the bucket
is full again. A token is worth `interval_ns`; taking one moves that moment by so much, and it
never lies further ahead than a whole bucket is worth.
"""

from functools import lru_cache
from typing import NamedTuple

SECOND_NS = 10**9
_RATES_CACHED_MAX = 256


class Rate(NamedTuple):
    """A plan's limit as the arithmetic needs it; made by `rate()`."""

    limit: int
    window_seconds: int
    interval_ns: int
    """The time after which one token is back: the window divided by the limit, rounded up."""
    capacity_ns: int
    """The time after which an empty bucket is full: the window, plus at most `limit` ns."""


@lru_cache(maxsize=_RATES_CACHED_MAX)
def rate(limit: int, window_seconds: int) -> Rate:
    """Return the rate of `limit` requests in `window_seconds`, both at least 1."""
    interval_ns = -(-window_seconds * SECOND_NS // limit)
    return Rate(limit, window_seconds, interval_ns, limit * interval_ns)


class Outcome(NamedTuple):
    """What a bucket answered."""

    full_at_ns: int
    """The theoretical arrival time to store."""
    admitted: bool
    remaining: int
    """Whole tokens left: so many more requests would be admitted at this instant."""
    full_in_ns: int
    retry_after_seconds: int
    """0 if admitted; otherwise after so many seconds a client that is alone is admitted."""


def take(rate: Rate, full_at_ns: int, now_ns: int) -> Outcome:
    """Take a token if there is one; a refusal takes nothing (D8).

    What is stored is clamped to a whole bucket from now, on a refusal too: after a plan change,
    or a clock that stepped back, nobody stays stuck, and nothing is granted at that moment.
    """
    before_ns = _clamped(rate, full_at_ns, now_ns)
    after_ns = before_ns + rate.interval_ns
    missing_ns = after_ns - now_ns - rate.capacity_ns
    if missing_ns > 0:
        # An empty bucket lies ahead of now, so `before_ns` is what was stored, or the clamp.
        retry_after_seconds = -(-missing_ns // SECOND_NS)
        return Outcome(before_ns, False, 0, before_ns - now_ns, retry_after_seconds)
    remaining = -missing_ns // rate.interval_ns
    return Outcome(after_ns, True, remaining, after_ns - now_ns, 0)


def peek(rate: Rate, full_at_ns: int, now_ns: int) -> Outcome:
    """Tell what is in the bucket and take nothing; `admitted` if a token could be taken."""
    taken = take(rate, full_at_ns, now_ns)
    if not taken.admitted:
        return taken
    before_ns = _clamped(rate, full_at_ns, now_ns)
    full_in_ns = before_ns - now_ns
    remaining = (rate.capacity_ns - full_in_ns) // rate.interval_ns
    return Outcome(before_ns, True, remaining, full_in_ns, 0)


def _clamped(rate: Rate, full_at_ns: int, now_ns: int) -> int:
    # PERF: half the time of min(max(...)).
    if full_at_ns <= now_ns:
        return now_ns
    latest_ns = now_ns + rate.capacity_ns
    return full_at_ns if full_at_ns < latest_ns else latest_ns
