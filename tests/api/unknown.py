"""Rows for tests of what no register knows (D198), and loads that end at a known time (D199)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta

import pytest

from app import clock
from tests.conftest import World

SILENT = {"registration": "NK01AAA", "make": "Ford"}
"""A vehicle of which nothing is known that a check depends on."""
FLAGGED = {"registration": "NK02AAA", "insured": True, "lastUpdated": "2025-06-01"}
"""A vehicle with a flag that is known since a day."""
ENDED = {
    "registration": "NK03AAA",
    "number": "P-1",
    "validFrom": "2025-01-01",
    "validTo": "2025-06-30",
}
"""A policy that has ended."""
FLAG_BEGINS, BEFORE_FLAG = "2025-06-01", "2025-05-31"
COMPLETE = {"complete_registers": ("native",)}
"""The setting by which the absence of a policy is an answer."""
EARLY, LATE = 1_000_000_000, 1_100_000_000
EARLY_TEXT, LATE_TEXT = "2001-09-09T01:46:40Z", "2004-11-09T11:33:20Z"


def tomorrow() -> str:
    """Return the day after today."""
    return (clock.today(UTC) + timedelta(1)).isoformat()


def load_at(
    world: World, epoch_seconds: int, *files: Sequence[Mapping[str, object]], register: str | None
) -> None:
    """Load rows of several kinds into a register; each load ends at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now", lambda: epoch_seconds)
        for rows in files:
            world.load(rows, register=register)
