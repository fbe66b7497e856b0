"""How many plates people look up in the console on a day, and the limits of their roles."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import peewee

from app import clock
from app.clock_steps import old_times
from app.config import Config
from app.people.directory import person_of
from app.people.sessions import Session
from app.storage.engine import Engine

_KEPT_SECONDS = 7 * 86_400
"""How long days are kept: a clock that is set back finds its day again."""
_PRUNING_LOCK = 0x766677  # any number that no other lock uses


class PersonDay(peewee.Model):
    """The plates of a person whose role has a limit, on one day."""

    day = peewee.CharField(10)
    """ISO date, in the time zone of the service."""
    person = peewee.TextField()
    """The name, as `person_of` returns it."""
    role = peewee.CharField(10)
    """The role in which the person asked last."""
    plates = peewee.BigIntegerField()
    """Those that were asked for, each as often as it was."""
    refused_at = peewee.BigIntegerField(null=True)
    """When a look-up was first refused, in Unix seconds."""

    class Meta:
        table_name = "person_day"
        primary_key = peewee.CompositeKey("day", "person")


_KEY = (PersonDay.day, PersonDay.person)


class LimitReached(Exception):
    """A look-up has more plates than the person has left on this day.

    Args:
        limit: the plates of a day.
        left: those that are left.
        next_at: when the next day begins, in Unix seconds.
    """

    def __init__(self, limit: int, left: int, next_at: int) -> None:
        super().__init__(limit, left, next_at)
        self.limit, self.left, self.next_at = limit, left, next_at


class PlateLimits:
    """The limits of this installation: all hosts count in the same database."""

    def __init__(self, engine: Engine, config: Config) -> None:
        self._engine = engine
        self._limits = config.console_limits
        self._zone = config.timezone
        self._data_dir = config.data_dir

    @contextmanager
    def counted(self, session: Session, plates: int) -> Iterator[None]:
        """Count the plates of a look-up, which is done in this context.

        They are counted before it, so that a killed process gives nothing away, and given back if
        it fails or is given up (D45). Raises LimitReached; peewee.PeeweeException if they cannot be
        counted.
        """
        limit = self._limits.get(session.role)
        if limit is None:
            yield
            return
        now = clock.now()
        today = clock.day_of(now, self._zone)
        row = {"day": today.isoformat(), "person": person_of(session.name), "role": session.role}
        with self._engine.atomic():
            used = self._add(row, plates, limit)
            left = None if used else limit - self._refuse(row, now)
        if left is not None:
            next_at = clock.start_of(today + timedelta(days=1), self._zone)
            raise LimitReached(limit, max(0, left), next_at)
        # A full disk must not cost a day.
        try:
            yield
        except BaseException:
            self._give_back(row, plates)
            raise

    def today(self) -> list[PersonDay]:
        """Return those who have asked today, by name."""
        day = clock.today(self._zone).isoformat()
        query = PersonDay.select().where(PersonDay.day == day).order_by(PersonDay.person)
        return list(query.execute(self._engine))

    def _add(self, row: dict[str, str], plates: int, limit: int) -> int:
        """Return the person's plates of the day with these; 0 if they are more than the limit."""
        if plates > limit:
            return 0
        # One statement decides and counts: of two look-ups at once, only one gets the last plate.
        added = PersonDay.plates + plates
        update = {PersonDay.plates: added, PersonDay.role: row["role"]}
        query = PersonDay.insert(**row, plates=plates).on_conflict(
            conflict_target=_KEY, update=update, where=added <= limit
        )
        found = list(query.returning(PersonDay.plates).tuples().execute(self._engine))
        used: int = found[0][0] if found else 0
        if used == plates:
            self._prune()
        return used

    def _refuse(self, row: dict[str, str], now: int) -> int:
        """Note when a person was first refused; return the person's plates of the day."""
        PersonDay.insert(**row, plates=0, refused_at=now).on_conflict(
            conflict_target=_KEY,
            update={PersonDay.refused_at: now, PersonDay.role: row["role"]},
            # PERF: each commit makes workers ask for keys again (D109).
            where=PersonDay.refused_at.is_null(),
        ).execute(self._engine)
        found: PersonDay = PersonDay.select().where(_is_of(row)).get(self._engine)
        return int(found.plates)

    def _give_back(self, row: dict[str, str], plates: int) -> None:
        """Take the plates of a look-up that failed off again, as far as the database lets us."""
        update = PersonDay.update(plates=PersonDay.plates - plates).where(_is_of(row))
        try:
            update.execute(self._engine)
        except peewee.PeeweeException as error:
            self._engine.recover(error)

    def _prune(self) -> None:
        """Remove days that are too old."""
        # Two processes could wait for each other's rows.
        self._engine.take_advisory_lock(_PRUNING_LOCK)
        old = old_times(self._data_dir, _KEPT_SECONDS)
        young, last = (clock.day_of(at, self._zone) for at in (old.start - 1, old.stop - 1))
        is_old = (PersonDay.day > young.isoformat()) & (PersonDay.day <= last.isoformat())
        PersonDay.delete().where(is_old).execute(self._engine)


def _is_of(row: dict[str, str]) -> peewee.Expression:
    return (PersonDay.day == row["day"]) & (PersonDay.person == row["person"])
