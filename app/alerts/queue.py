"""Whether alerts are delivered (D78)."""

from collections.abc import Iterator
from contextlib import suppress

from app import clock
from app.alerts.condition import Condition
from app.alerts.spool import Spool
from app.config import Config

UNDELIVERED = "notify"
"""The kind of this condition, which no alert can report."""
_LATE_SECONDS = 3600


def queue_conditions(config: Config) -> Iterator[Condition]:
    """Yield a condition if an alert has waited for more than an hour."""
    with suppress(OSError):
        created = [entry.message.created_at for entry in Spool(config.data_dir).entries()]
        age = clock.now() - min(created, default=clock.now())
        if age > _LATE_SECONDS:
            yield Condition(
                key=f"{UNDELIVERED}:queue",
                title="alerts are not delivered",
                warning=(
                    f"Alerts are not delivered: {len(created)}; "
                    f"the oldest has waited for {clock.duration_text(age)}."
                ),
                since=min(created),
                remedy="sudo verifyd notify --test",
            )
