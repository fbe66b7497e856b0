"""A condition: one thing that an operator must correct although look-ups work (D76)."""

import msgspec


class Condition(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    SEC: alerts send all members. None holds a registration, a key or a record. The reason of a
    failed load can quote a record, except if it failed before a file was opened.
    """

    key: str
    """What it is about, such as `load:rdw`. The part before the colon is its kind."""
    title: str
    """A clause for the subject of a message, such as `a load of the register rdw failed`."""
    warning: str
    """A sentence for `verifyd check` and `/readyz`. It names no register files."""
    since: int
    """When it began, in Unix seconds."""
    remedy: str
    """What to do now: a command."""
    occurrence: str = ""
    """A value that changes when it happens again, such as the number of the failed load."""
    details: tuple[str, ...] = ()
    """More lines for an alert."""

    @property
    def kind(self) -> str:
        """Return its kind: `load`, `stale`, `job`, `missed`, ..."""
        return self.key.partition(":")[0]
