"""Sweeps of watches that are late, or that hold back what a load has changed (D185)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from peewee import fn

from app import clock
from app.accounts.models import Account
from app.alerts.message import Condition
from app.alerts.nightly import LastRuns, is_catching_up, running_since, shortened
from app.storage.engine import Engine
from app.text import counted
from app.watches.tables import Watch, WatchFeed

LATE_SECONDS = 3 * 3600
"""From this age of the last sweep, two were missed. They come every hour."""


class HeldSweep(NamedTuple):
    """The watches of an account of which a sweep holds changes back."""

    account: str
    watches: int
    since: int
    """Unix seconds."""


def held_back(engine: Engine) -> list[HeldSweep]:
    """Return the active accounts with changes that are held back, the latest first.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    query = (
        WatchFeed.select(Account.name, WatchFeed.held, WatchFeed.held_at)
        .join(Account, on=(WatchFeed.account == Account.id))
        .where(WatchFeed.held > 0, Account.suspended_at.is_null())
        .order_by(WatchFeed.held_at.desc(), Account.name)
    )
    return [HeldSweep(*row) for row in query.tuples().execute(engine)]


def count_watches(engine: Engine) -> int:
    """Return how many watches all accounts have."""
    return int(Watch.select(fn.COUNT(Watch.id)).scalar(engine))


def sweep_conditions(engine: Engine, runs: LastRuns, state_dir: Path) -> Iterator[Condition]:
    """Yield a condition if no sweep has ended well for a while, and if one holds anything back.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    yield from _held(held_back(engine))
    # A clock that was ahead for a while has dated some into the future.
    watches = Watch.select(Watch.created_at).where(Watch.created_at <= clock.now())
    first = watches.order_by(Watch.id).limit(1).scalar(engine)
    if first is None or is_catching_up():
        return
    # Before the oldest watch there was nothing to sweep.
    since = max(runs.swept_at or 0, first)
    since = max(since, _held_off_until(since, runs, state_dir))
    if clock.now() - since <= LATE_SECONDS:
        return
    failed = runs.ended.get("sweep")
    yield Condition(
        # An alert each hour for one fault would be too many: no failed sweep has one of its own.
        key="sweep:late",
        title="the watches are not swept",
        warning=(
            f"The watches were last swept {clock.duration_text(clock.now() - since)} ago, which "
            "should happen every hour. Accounts do not learn what has changed."
        ),
        since=since + LATE_SECONDS,
        remedy="sudo verifyd sweep",
        occurrence=str(since),
        details=failed.faults if failed else (),
    )


def _held_off_until(since: int, runs: LastRuns, state_dir: Path) -> int:
    """Return until when the load of a drop directory held sweeps off; 0 if they were late before.

    It can take hours, and a sweep follows it.
    """
    began_at, ended_at = running_since(state_dir, "import"), clock.now()
    if began_at is None and "import" in runs.ended:
        began_at, ended_at = runs.ended["import"].started_at, runs.finished_at["import"]
    return 0 if began_at is None or began_at - since > LATE_SECONDS else ended_at


def _held(held: list[HeldSweep]) -> Iterator[Condition]:
    if not held:
        return
    newest = held[0]
    accounts = [f"{each.account}: {counted(each.watches, 'watch', 'watches')}" for each in held]
    yield Condition(
        key="sweep:held",
        title="a load has changed suspiciously many watches",
        warning=(
            "A load has changed suspiciously many watches, so these changes are not reported to "
            f"the accounts: {'; '.join(shortened(accounts, 5))}."
        ),
        since=min(each.since for each in held),
        remedy=f"correct the load, or report them: sudo verifyd sweep --accept {newest.account}",
        occurrence=str(newest.since),
        details=shortened(accounts),
    )
