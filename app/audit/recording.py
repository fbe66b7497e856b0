"""Records answers of commands and tasks before they are shown (D125)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from app import clock
from app.actions import session
from app.audit.hosts import require_off
from app.audit.owner import Owner, require_own
from app.audit.record import Plate, Record, time_of
from app.audit.state import claim_for_command
from app.audit.trail import Trail, durable
from app.config import Config
from app.storage.engine import Engine
from app.storage.versions import database_id


class Recording:
    """Records answers in the trail of this host.

    Args:
        trail: None if the answers need no record: then nothing is done.
        said: the members that all records have in common.
    """

    def __init__(self, trail: Trail | None, said: Mapping[str, Any]) -> None:
        self._trail = trail
        self._said = said
        self.is_on = trail is not None

    def record(self, plates: Iterable[Plate], **members: Any) -> None:
        """Record plates that are shown. Raises AuditError if they must not be shown."""
        self.record_each([members | {"plates": plates}])

    def record_each(self, shown: Iterable[Mapping[str, Any]]) -> None:
        """Append a record for each answer, all together. Raises AuditError; then none was."""
        if self._trail is not None:
            self._trail.append(*(record_now(**{**self._said, **each}) for each in shown))


def record_now(**members: Any) -> Record:
    """Return a record of this moment, with the plates of any iterable."""
    plates = list(members.pop("plates", ()))
    return Record(**{"time": time_of(clock.now_ns())} | members, plates=plates)


def said_by_command() -> Mapping[str, Any]:
    """Return the members of each record of a command: who runs it, as its environment says."""
    return {"unverified": True, **session()._asdict()}


def owner_for_task(engine: Engine, config: Config) -> Owner:
    """Return the owner of the trail for a task of the console, which creates none.

    Raises AuditError.
    """
    return require_own(config.audit_dir, database_id(engine))


@contextmanager
def recording(
    engine: Engine,
    config: Config,
    said: Mapping[str, Any],
    find_owner: Callable[[Engine, Config], Owner] = claim_for_command,
) -> Iterator[Recording]:
    """Open this host's trail if look-ups are recorded. At the end the records are on disk.

    Args:
        said: the members that all records have in common.

    Raises AuditError.
    """
    if config.audit:
        with durable(config.audit_dir, find_owner(engine, config)) as trail:
            yield Recording(trail, said)
    else:
        require_off(engine)
        yield Recording(None, said)
