"""The age of each register, and whether it is stale (D51)."""

from collections.abc import Mapping
from typing import NamedTuple

from app import clock
from app.setting_values import EVERY_REGISTER
from app.storage.engine import Engine
from app.storage.registers import Entry, list_entries


class Freshness(NamedTuple):
    """A loaded register and its age."""

    register: Entry
    loaded_at: int
    age_seconds: int
    """Since the end of the last load that read a row, even if that load changed nothing."""
    limit_seconds: int | None
    """The age that `VERIFYD_STALE_AFTER` allows; None if it does not name this register."""

    @property
    def is_stale(self) -> bool:
        """Whether the register is older than the setting allows."""
        return self.limit_seconds is not None and self.age_seconds > self.limit_seconds

    def warning(self) -> str:
        """Return a warning about a stale register, as a sentence for the operator."""
        age = clock.duration_text(self.age_seconds)
        limit = clock.duration_text(self.limit_seconds or 0)
        return (
            f"The register {self.register.name} was last loaded {age} ago; "
            f"VERIFYD_STALE_AFTER allows {limit}."
        )


def freshness(engine: Engine, stale_after: Mapping[str, int]) -> list[Freshness]:
    """Return the loaded registers, ordered by name.

    Args:
        stale_after: the setting, in seconds.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    now = clock.now()
    otherwise = stale_after.get(EVERY_REGISTER)
    return [
        Freshness(
            register=each,
            loaded_at=each.loaded_at,
            age_seconds=max(0, now - each.loaded_at),
            limit_seconds=stale_after.get(each.name, otherwise),
        )
        for each in list_entries(engine)
        if each.loaded_at is not None
    ]
