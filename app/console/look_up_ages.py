"""How old the data of an answer is, and what makes it doubtful (D198).

Every stale register and held load is named, because any could change the answer.
"""

from collections.abc import Iterable, Mapping
from datetime import tzinfo

from app import clock
from app.alerts.loads import freshness
from app.config import Config
from app.console import look_up_texts as texts
from app.registers.holds import open_holds
from app.storage.engine import Engine
from app.storage.tables import Kind
from app.vehicles.compliance import judge
from app.vehicles.deciding import LoadTimes, checks_loaded, insurance_decided_by
from app.vehicles.facts import Record
from app.vehicles.periods import record_on

Ages = Mapping[str, str]
"""The day on which each kind of data was loaded (ISO date), by its name."""


def ages_of(
    record: Record, days: tuple[str, str], times: LoadTimes, zone: tzinfo
) -> tuple[Ages, Ages]:
    """Return how old the data is that decided about insurance, and about compliance.

    Of several registers the oldest counts. The second has that of the first, too.

    Args:
        record: of a look-up for these days, or earlier ones, that asked for dates.
        days: that the two verdicts are about (ISO dates).
        zone: of the days that are returned.
    """
    insurance, compliance = (_loaded(record_on(record, day), day, times) for day in days)
    return _oldest(insurance[:1], zone), _oldest(insurance[:1] + compliance, zone)


def _loaded(record: Record, day: str, times: LoadTimes) -> list[tuple[Kind, int | None]]:
    """Return for each check the kind of data that decided, and when it was loaded."""
    judgement = judge(record, day)
    kind, _ = insurance_decided_by(record, judgement.insurance, day)
    kinds = (kind, Kind.VEHICLES, Kind.VEHICLES, Kind.FINES)
    return list(zip(kinds, checks_loaded(record, judgement, day, times), strict=True))


def _oldest(loaded: Iterable[tuple[Kind, int | None]], zone: tzinfo) -> Ages:
    times = sorted((time, kind) for kind, time in loaded if time is not None)
    return {kind: clock.day_of(time, zone).isoformat() for time, kind in reversed(times)}


def ages_by_register(times: LoadTimes, zone: tzinfo) -> Mapping[str, Ages]:
    """Return how old all data is, by register."""
    found: dict[str, dict[str, str]] = {}
    for (register, kind), time in sorted(times.items()):
        found.setdefault(register, {})[kind] = clock.day_of(time, zone).isoformat()
    return found


def doubts_of(engine: Engine, config: Config) -> list[str]:
    """Return a sentence for each register that is stale, and for each of which a load is held.

    SEC: not why it is held: clerks see no loads.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    stale = [each for each in freshness(engine, config) if each.is_stale]
    held = sorted({each.register for each in open_holds(engine)})
    zone = config.timezone
    return [
        *(
            texts.stale(each.register.name, clock.day_of(each.loaded_at, zone).isoformat())
            for each in stale
        ),
        *map(texts.HELD.format, held),
    ]
