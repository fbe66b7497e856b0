"""What an operator has to look at although every look-up works: one thing, in words (D76)."""

import msgspec


class Condition(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    SEC: alerts send all of it. No member holds a registration, a key, a record, or the reason of
    a failed load, which can quote a record.
    """

    key: str
    """What it is about, such as `load:rdw`; the part before the colon is its kind."""
    title: str
    """A clause for the subject of a message, such as `a load of the register rdw failed`."""
    warning: str
    """A sentence for `verifyd check` and `/readyz`; it names no files."""
    since: int
    """When it began, in Unix seconds."""
    remedy: str
    """What to do now: a command."""
    occurrence: str = ""
    """What makes it a new event with the same key, such as the number of the failed load."""
    details: tuple[str, ...] = ()
    """Further lines for a message."""

    @property
    def kind(self) -> str:
        """Return what sort of thing it is: `load`, `stale`, `job`, `missed`, ..."""
        return self.key.partition(":")[0]
