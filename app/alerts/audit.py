"""Whether look-ups can be recorded, and whether the audit trail is sealed in time (D127)."""

from collections.abc import Iterator

from app import clock
from app.alerts.condition import Condition
from app.alerts.nightly import is_catching_up
from app.audit.state import owner_fault, space_fault, summary_of
from app.config import Config
from app.storage.engine import Engine

REFUSED = "audit:refused"
"""The key of the condition that every look-up is refused until an operator does something."""
SEALED_SECONDS = 3 * 3600
"""From this age of the last run, two runs were missed. A backup can delay one."""
_LITTLE_BYTES = 16 * 1024 * 1024


def audit_conditions(engine: Engine, config: Config) -> Iterator[Condition]:
    """Yield a condition if look-ups are refused or soon will be, and if `seal` did not run.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    if not config.audit:
        return
    now = clock.now()
    fault = owner_fault(engine, config)
    if fault:
        yield Condition(
            key=REFUSED,
            title="no look-up can be recorded, so each is refused",
            warning=f"No look-up can be recorded, so each is refused: {fault}.",
            since=now,
            remedy="sudo verifyd check",
        )
        return
    full = space_fault(config, _LITTLE_BYTES)
    if full:
        yield Condition(
            key="audit:space",
            title="the disk of the audit trail is full",
            warning=f"Look-ups that cannot be recorded are refused, and {full}.",
            since=now,
            remedy=f"make room: df -h {config.audit_dir}",
        )
    summary = summary_of(config)
    if summary is None or is_catching_up():
        return
    if now - summary.sealed_at > SEALED_SECONDS:
        age = clock.duration_text(now - summary.sealed_at)
        yield Condition(
            key="audit:seal",
            title="the audit trail is not sealed",
            warning=(
                f"The audit trail was last sealed {age} ago, which should happen every hour. "
                "Records that are not sealed are not protected from changes."
            ),
            since=summary.sealed_at + SEALED_SECONDS,
            remedy="sudo verifyd audit seal",
            occurrence=str(summary.sealed_at),
        )
